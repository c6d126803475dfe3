"""Switching torch.profiler to opscope and back.

opscope replaces the C++ functions that torch's Python profiler calls, the classes of their results,
and the few Python methods that would convert columns to objects. Classes such as
``torch.profiler.profile`` stay, so a program that imported them before is switched too. Modules
that imported a replaced name, under any name, are updated; other references (a default argument, a
base class) remain torch's.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import opscope._native as _native
from opscope.base.notice import notice
from opscope.errors import LifecycleError
from opscope.launch.kineto_switch import hidden_from_kineto, is_daemon_enabled, restore_variable

if TYPE_CHECKING:
    from opscope.torch_api.drop_in.daemon import DaemonClient
    from opscope.torch_api.drop_in.replacements import Replacements

_section = _native.Section()
_saved: list[tuple[Any, str, Any]] = []  # owner, name and original value
_added: list[str] = []  # names of modules that this torch lacks
_installed: Replacements | None = None
_daemon: DaemonClient | None = None
_replaced_before: set[tuple[str, str]] = set()  # globals that had a replacement before install()


class Installed:
    """Result of :func:`install`; uninstalls at the end of a ``with`` block."""

    def __enter__(self) -> Installed:
        return self

    def __exit__(self, *_: object) -> None:
        uninstall()


def install() -> Installed:
    """Make torch.profiler record with opscope, until :func:`uninstall`. Idempotent.

    Raises:
        BridgeError: torch is not installed.
        LifecycleError: torch's own profiler is running.
    """
    with hidden_from_kineto() as is_ours:
        originals = _section.run(_install, _undo_install)
    _warn_of_subclasses(originals)
    if is_daemon_enabled():
        _answer_daemon(is_ours)
    return Installed()


def install_and_answer() -> None:
    """Call :func:`install` after torch is imported with the daemon's variable hidden."""
    if restore_variable():
        answer_daemon()
    install()


def answer_daemon() -> None:
    """Answer Dynolog's daemon from now on, instead of Kineto."""
    global _daemon
    if _daemon is not None:
        return
    from opscope.torch_api.drop_in.daemon import DaemonClient

    try:
        _daemon = DaemonClient()
        _daemon.begin()
    except OSError as error:
        notice(f"KINETO_USE_DAEMON has no effect: {error}")


def _answer_daemon(is_ours: bool) -> None:
    if is_ours:
        answer_daemon()
    elif _daemon is None:
        notice(
            "KINETO_USE_DAEMON=1 was set when torch was imported, so torch's own profiler "
            "serves Dynolog. Call opscope.drop_in.install() before torch is imported."
        )


def _install() -> dict[int, tuple[Any, Any]]:
    """Replace torch's names; returns the replaced objects, by ``id()``."""
    global _installed
    if _installed is not None:
        return {}
    from opscope.torch_api.drop_in.replacements import find_replacements

    replacements = find_replacements()
    _refuse_while_torch_profiles()
    _replaced_before.clear()
    _replaced_before.update((m.__name__, name) for m, name, _ in _globals_among(replacements.news))
    for owner, name, value in replacements.methods:
        _replace(owner, name, value)
    for name, module in replacements.modules.items():
        _add_module(name, module)
    for module, name, value in _globals_among(replacements.originals):
        _replace(module, name, replacements.originals[id(value)][1])
    _installed = replacements
    return replacements.originals


def _undo_install() -> None:
    if _installed is None:
        _restore()


def uninstall() -> None:
    """Restore every name, also in modules imported since. Idempotent.

    A running profile is stopped with a warning, because torch cannot continue it.
    """
    _end_daemon_client()
    if _section.run(_uninstall, _uninstall):
        warnings.warn(
            "opscope.drop_in.uninstall() was called during a profile; its recording is lost. "
            "Stop the profile first.",
            stacklevel=2,
        )


def _end_daemon_client() -> None:
    global _daemon
    daemon, _daemon = _daemon, None
    if daemon is not None:
        daemon.end()


def _uninstall() -> bool:
    """Restore torch's names; returns whether a profile was running. Can be interrupted."""
    global _installed
    replacements = _installed
    if replacements is None:
        return False
    from opscope.torch_api.drop_in.backend import session

    was_running = session.abandon()
    _restore()
    for module, name, value in list(_globals_among(replacements.news)):
        if (module.__name__, name) not in _replaced_before:
            setattr(module, name, replacements.news[id(value)][1])
    _installed = None
    return was_running


def is_installed() -> bool:
    """Whether torch.profiler records with opscope."""
    return _installed is not None


def _replace(owner: Any, name: str, value: Any) -> None:
    _saved.append((owner, name, vars(owner)[name]))
    setattr(owner, name, value)


def _add_module(name: str, module: ModuleType) -> None:
    package, _, last = name.rpartition(".")
    _added.append(name)
    sys.modules[name] = module
    setattr(sys.modules[package], last, module)


def _restore() -> None:
    for owner, name, value in reversed(_saved):
        setattr(owner, name, value)
    _saved.clear()
    for module in _added:
        package, _, last = module.rpartition(".")
        sys.modules.pop(module, None)
        vars(sys.modules[package]).pop(last, None)
    _added.clear()


def _globals_among(values: dict[int, tuple[Any, Any]]) -> Iterator[tuple[ModuleType, str, Any]]:
    """Module, name and value of every global outside opscope that is one of ``values``."""
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] == "opscope":
            continue
        # Not getattr(), which makes lazy modules import.
        names = dict(getattr(module, "__dict__", {}))
        if values.keys().isdisjoint(map(id, names.values())):  # in C: torch has 50,000 names
            continue
        for name, value in names.items():
            if id(value) in values and values[id(value)][0] is value:
                yield module, name, value


def _warn_of_subclasses(originals: dict[int, tuple[Any, Any]]) -> None:
    """Warn of classes derived from torch's before the switch, which do not change."""
    children: list[type] = []
    for original, _ in originals.values():
        if isinstance(original, type):
            children += type.__subclasses__(original)
    derived = sorted(
        f"{child.__module__}.{child.__qualname__}"
        for child in children
        if child.__module__.partition(".")[0] not in ("torch", "opscope")
    )
    if derived:
        warnings.warn(
            f"{', '.join(derived)}: derived from a class of torch's profiler before opscope "
            "replaced it, so it still uses torch's. Call opscope.drop_in.install() before "
            "importing it.",
            stacklevel=3,
        )


def _refuse_while_torch_profiles() -> None:
    from torch._C import _autograd

    if _autograd._profiler_enabled() and _native.statistics()["wanted"] == 0:
        raise LifecycleError(
            "torch's own profiler is running, and could not be stopped after opscope replaced "
            "it. Stop it, then call opscope.drop_in.install()."
        )
