"""The herder's event loop."""

from support.held_herder import turn


def test_what_falls_due_while_timers_are_taken_has_its_turn_after_the_requests_that_wait(herder, clock):
    done = []

    def again():
        done.append("timer")
        assert len(done) < 10, "a timer that falls due again at once leaves no turn to anybody"
        clock.at_s += 1
        herder.loop.call_later(0.0, again)

    herder.loop.call_later(0.0, again)
    herder.loop.post(lambda: done.append("request"))
    turn(herder)
    turn(herder)

    assert done == ["timer", "request", "timer"]
