"""Find data that does not stay data: that becomes a command, code, a file of somebody else's choice, or a pattern that takes for ever."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from audit.syntax import Source, is_constant, is_literal, keyword

_LOADS = ("importlib.import_module", "__import__", "ctypes.CDLL", "ctypes.cdll.LoadLibrary", "importlib.machinery.ExtensionFileLoader")
_PATTERNS = tuple(f"re.{name}" for name in ("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"))


def shells(source: Source) -> Iterator[ast.AST]:
    for name, call in source.calls:
        shell = keyword(call, "shell")
        if name in ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "asyncio.create_subprocess_shell") or (
            shell is not None and not is_literal(shell, False)
        ):
            yield call


_TEXTS_ALONE = ("SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader")


def yaml_objects(source: Source) -> Iterator[ast.AST]:
    for name, call in source.calls:
        loader = keyword(call, "Loader") or (call.args[1] if len(call.args) > 1 else None)
        if name in ("yaml.unsafe_load", "yaml.unsafe_load_all", "yaml.full_load", "yaml.full_load_all") or (
            name in ("yaml.load", "yaml.load_all") and (loader is None or source.full_name(loader).rpartition(".")[2] not in _TEXTS_ALONE)
        ):
            yield call


_RUN = (
    "pickle.",
    "cPickle.",
    "_pickle.",
    "marshal.",
    "shelve.",
    "dill.",
    "cloudpickle.",
    "jsonpickle.",
    "joblib.",
    "code.Interactive",
    "runpy.",
)


def code_from_data(source: Source) -> Iterator[ast.AST]:
    for name, call in source.calls:
        if (
            name in ("eval", "exec", "compile", "builtins.eval", "builtins.exec")
            or name.startswith(_RUN)
            or (name in _LOADS and not (call.args and is_constant(call.args[0])))
        ):
            yield call


def files_by_name(source: Source) -> Iterator[ast.AST]:
    for name, call in source.calls:
        last = name.rpartition(".")[2]
        if name in ("open", "io.open", "os.open", "codecs.open", "shutil.copyfile", "shutil.copy"):
            if not call.args or not is_constant(call.args[0]):
                yield call
        elif isinstance(call.func, ast.Attribute) and last in ("read_text", "read_bytes", "write_text", "write_bytes", "open"):
            if last == "open" and not is_mode(call):
                continue
            path = call.func.value
            fixed = is_constant(path) or (
                isinstance(path, ast.Call) and source.full_name(path.func).endswith("Path") and all(map(is_constant, path.args))
            )
            if not fixed:
                yield call


def is_mode(call: ast.Call) -> bool:
    """Tell whether an `open` of something is a path's: its first argument is a mode, or it has no argument but an encoding."""
    if call.args:
        return isinstance(call.args[0], ast.Constant) and bool(re.fullmatch(r"[rwaxbt+]{1,3}", str(call.args[0].value)))
    return bool(call.keywords) and all(given.arg in ("mode", "encoding", "errors", "buffering", "newline") for given in call.keywords)


def unpacked_archives(source: Source) -> Iterator[ast.AST]:
    for name, call in source.calls:
        last = name.rpartition(".")[2]
        given = keyword(call, "filter")
        without_filter = last == "extractall" and not (isinstance(given, ast.Constant) and given.value == "data")
        of_archive = last == "extract" and re.search(r"(?i)(zip|tar|archive)", name.rpartition(".")[0])
        if name == "shutil.unpack_archive" or without_filter or of_archive:
            yield call


def guessable_names(source: Source) -> Iterator[ast.AST]:
    yield from (call for name, call in source.calls if name in ("tempfile.mktemp", "os.tempnam", "os.tmpnam"))


def patterns_of_others(source: Source) -> Iterator[ast.AST]:
    for name, call in source.calls:
        if name in _PATTERNS and not (call.args and _is_own_pattern(source, call.args[0])):
            yield call


def _is_own_pattern(source: Source, node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr(values=parts):
            return all(_is_own_pattern(source, part.value if isinstance(part, ast.FormattedValue) else part) for part in parts)
        case ast.BinOp(left=left, right=right):
            return _is_own_pattern(source, left) and _is_own_pattern(source, right)
        case ast.Call(func=function, args=args):
            return (
                source.full_name(function) in ("re.escape", "map")
                or is_constant(node)
                or (ast.unparse(function).endswith(".join") and all(_is_own_pattern(source, given) for given in args))
            )
        case ast.IfExp(body=one, orelse=other):
            return _is_own_pattern(source, one) and _is_own_pattern(source, other)
        case ast.GeneratorExp(elt=item) | ast.ListComp(elt=item):
            return _is_own_pattern(source, item)
        case ast.BoolOp(values=values):
            return all(_is_own_pattern(source, value) for value in values)
        case ast.Name() if not is_constant(node) and (values := source.assigned(node)):
            return all(_is_own_pattern(source, value) for value in values)
        case _:
            return is_constant(node)
