"""The rule of ``dblog connectors apply``, over every small case: what is done follows from what is wanted, what is there, and whose it is."""

from itertools import product

import pytest
from dblog.apply.decide import OWNER, Create, Delete, Leave, Present, Refuse, SetState, Update, decide
from dblog.apply.wanted import Wanted, WantedState

ME = "me"
CONFIGS = ({"a": "1"}, {"a": "2"}, {"a": "1", "b": "x"})
STATES = ("RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING", "")
OWNERS = (ME, "another", None)
WANTED = (None, *(Wanted("c", config, state) for config in CONFIGS for state in (None, *WantedState)))
PRESENT = (
    None,
    *(Present("c", {**config, **({OWNER: owner} if owner else {})}, state) for config, state, owner in product(CONFIGS, STATES, OWNERS)),
)
EVERY = list(product(WANTED, PRESENT, (False, True), (False, True)))


def decided(wanted, present, *, prune=False, prune_all=True, complete=True):
    return decide(
        {} if wanted is None else {"c": wanted},
        {} if present is None else {"c": present},
        owner=ME,
        prune=prune,
        prune_all=prune_all,
        complete=complete,
    )


def owner_of(present):
    return None if present is None else present.config.get(OWNER)


def after(wanted, present, actions):
    """The connector once the actions are done."""
    for action in actions:
        match action:
            case Create(name, config, state):
                assert present is None
                present = Present(name, config, {None: "RUNNING"}.get(state, str(state).upper()))
            case Update(name, config):
                present = Present(name, config, present.state)
            case SetState(name, state):
                present = Present(name, present.config, str(state).upper())
            case Delete():
                present = None
    return present


def test_the_cases_are_many():
    assert len(EVERY) > 3000


def test_a_connector_of_others_is_never_touched():
    for wanted, present, prune, complete in EVERY:
        if present is not None and owner_of(present) != ME:
            actions = decided(wanted, present, prune=prune, complete=complete)
            assert {type(action) for action in actions} <= {Refuse}
            assert bool(actions) == (wanted is not None)


def test_whatever_is_wanted_and_ours_becomes_as_it_is_wanted_and_stays_so():
    for wanted, present, prune, complete in EVERY:
        if wanted is None or (present is not None and owner_of(present) != ME):
            continue
        result = after(wanted, present, decided(wanted, present, prune=prune, complete=complete))
        assert result.config == {**wanted.config, OWNER: ME}
        if wanted.state is not None and (present is None or present.state in ("RUNNING", "PAUSED", "STOPPED")):
            assert result.state == str(wanted.state).upper()
        if present is None or present.state in ("RUNNING", "PAUSED", "STOPPED"):
            assert decided(wanted, result, prune=prune, complete=complete) == []


def test_without_a_wanted_state_people_may_pause_and_stop():
    for wanted, present, prune, complete in EVERY:
        if wanted is not None and wanted.state is None:
            assert not any(isinstance(action, SetState) for action in decided(wanted, present, prune=prune, complete=complete))


def test_only_what_is_ours_and_unwanted_is_deleted_and_only_when_asked_and_when_every_file_was_read():
    for wanted, present, prune, complete in EVERY:
        deleted = any(isinstance(action, Delete) for action in decided(wanted, present, prune=prune, complete=complete))
        assert deleted == (wanted is None and owner_of(present) == ME and prune and complete)


def test_where_no_file_is_there_deletion_is_asked_for_twice():
    mine = Present("c", {OWNER: ME}, "RUNNING")
    other = {"d": Wanted("d", {"a": "1"})}

    (left,) = decided(None, mine, prune=True, prune_all=False)
    assert isinstance(left, Leave)
    assert "--prune-all" in left.reason
    assert decided(None, mine, prune=True) == [Delete("c")]
    assert Delete("c") in decide(other, {"c": mine}, owner=ME, prune=True, prune_all=False, complete=True)
    assert "--prune-all" not in decided(None, mine, prune_all=False)[0].reason


def test_a_deletion_names_the_connector_that_is_wanted_in_its_place():
    old = {"old": Present("old", {OWNER: ME, "topic.prefix": "shop"}, "RUNNING")}
    new = {"new": Wanted("new", {"topic.prefix": "shop"})}

    def deletion(wanted, present):
        return decide(wanted, present, owner=ME, prune=True, prune_all=False, complete=True)[0]

    assert deletion(new, old) == Delete("old", renamed="new")
    assert deletion({"new": Wanted("new", {"topic.prefix": "other"})}, old) == Delete("old")
    both = {**old, "new": Present("new", {OWNER: ME, "topic.prefix": "shop"}, "RUNNING")}
    assert deletion(new, both) == Delete("old"), "it is there already, with its own offsets"


def test_what_is_left_is_named_with_the_reason():
    mine = Present("c", {OWNER: ME}, "RUNNING")

    assert "--prune" in decided(None, mine)[0].reason
    for prune in (False, True):  # its file may be there, and broken: nobody knows that none wants it
        reason = decided(None, mine, prune=prune, complete=False)[0].reason
        assert "a file could not be read, which may be its own" in reason
        assert "any more" not in reason
        assert "--prune" not in reason
    assert isinstance(decided(None, mine)[0], Leave)


def test_an_update_names_the_keys_that_differ_and_no_values():
    (action,) = decided(Wanted("c", {"a": "2", "c": "3"}), Present("c", {"a": "1", "b": "x", "c": "3", OWNER: ME}, "RUNNING"))

    assert action.keys == ("a", "b")
    assert "config" not in repr(action)


@pytest.mark.parametrize("owner", [None, "another"])
def test_a_refusal_says_how_the_connector_is_handed_over(owner):
    (action,) = decided(Wanted("c", {"a": "1"}), Present("c", {OWNER: owner} if owner else {}, "RUNNING"))

    assert "PATCH /connectors/NAME/config" in action.reason
    assert (owner or "others") in action.reason


def test_deletions_come_first_and_each_kind_in_the_order_of_names():
    wanted = {name: Wanted(name, {"a": "1"}) for name in ("b", "a")}

    assert [
        action.name for action in decide(wanted, {"z": Present("z", {OWNER: ME})}, owner=ME, prune=True, prune_all=False, complete=True)
    ] == [
        "z",
        "a",
        "b",
    ]
