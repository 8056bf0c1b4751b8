"""Profiles: named sets of the parameters of simulated drives, each with where it comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _html, _ssdlab
from ._quantities import Value, parameter
from ._tables import pandas

if TYPE_CHECKING:
    import pandas as pd


def profiles() -> list[str]:
    """The names of the profiles that come along."""
    names, _ = _ssdlab.profile_names()
    return list(names)


class Profile:
    """A simulated drive's parameters, with changes. It never changes itself.

    Parameters
    ----------
    name : str or path
        A name of `ssdlab.profiles`, or a file of one's own (``"./my.toml"``). The default profile unless
        given.
    changes : mapping, optional
        Values by key, such as ``{"spare": "15%", "flash.page_read": "60us"}``. Numbers are bytes, seconds,
        and shares of 1 (``{"spare": 0.15, "flash.page_read": 60e-6}``).

    Raises
    ------
    UsageError
        When there is no such profile or key, or a value lies outside its range.

    Examples
    --------
    >>> import ssdlab
    >>> profile = ssdlab.Profile("toshiba-xg5", {"spare": "15%", "scale": "1/16"})
    >>> profile.target
    'sim:toshiba-xg5,spare=15%,scale=1/16'
    """

    def __init__(
        self, name: str | os.PathLike[str] = "", changes: Mapping[str, Value] | None = None
    ) -> None:
        _, default = _ssdlab.profile_names()
        self._base = os.fspath(name).removeprefix("sim:") or default
        self._changes = {key: parameter(key, value) for key, value in (changes or {}).items()}
        self._handle = _ssdlab.Profile(self.target.removeprefix("sim:"))
        figures = self._handle.figures()
        self._capacity, self._physical, self._unit, self._units_per_block = figures[:4]
        self._spare, self._expected = figures[4:]

    @property
    def target(self) -> str:
        """The drive as a target: what ``ssdlab run`` would be given."""
        return "sim:" + ",".join([self._base, *(f"{key}={it}" for key, it in self._changes.items())])

    @property
    def name(self) -> str:
        """The name of the profile, without changes."""
        return self._handle.name()

    @property
    def summary(self) -> str:
        """What drive it is, in a line."""
        return self._handle.summary()

    @property
    def changes(self) -> dict[str, str]:
        """What is changed in it, by key."""
        return dict(self._changes)

    @property
    def toml(self) -> str:
        """The text that the profile was read from, without changes: a start for one's own."""
        return self._handle.toml()

    @property
    def capacity(self) -> int:
        """Bytes that can be addressed."""
        return self._capacity

    @property
    def physical_capacity(self) -> int:
        """Bytes of flash."""
        return self._physical

    @property
    def unit_size(self) -> int:
        """Bytes of a mapping unit: what the map maps, and counters count."""
        return self._unit

    @property
    def units_per_block(self) -> int:
        """Mapping units of what is collected and erased at a time: `ssdlab.theory` asks for it."""
        return self._units_per_block

    @property
    def spare(self) -> float:
        """Over-provisioning as a share of physical, from 0 to 1."""
        return self._spare

    @property
    def spare_of_logical(self) -> float:
        """Over-provisioning as a share of logical, from 0 up: what `ssdlab.theory` takes."""
        return self.spare / (1.0 - self.spare)

    @property
    def expected_write_amplification(self) -> float | None:
        """Flash writes to host writes in the steady state of uniform random writes; None without theory."""
        return self._expected

    @property
    def parameters(self) -> pd.DataFrame:
        """All parameters by key: ``value``, ``basis``, ``source``, ``meaning``."""
        pd = pandas()
        heads = ["key", "value", "basis", "source", "meaning"]
        return pd.DataFrame(self._handle.parameters(), columns=heads).set_index("key")  # type: ignore[no-any-return]

    def changed(self, changes: Mapping[str, Value] | None = None, **more: Value) -> Profile:
        """The profile with further changes; keys without a dot can be given as keywords.

        Examples
        --------
        >>> import ssdlab
        >>> ssdlab.Profile("toshiba-xg5").changed(scale="1/64").capacity < 10**10
        True
        """
        return Profile(self._base, {**self._changes, **(changes or {}), **more})

    def __repr__(self) -> str:
        changes = f", {self._changes}" if self._changes else ""
        return f"Profile({self._base!r}{changes})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Profile) and self.target == other.target

    def __hash__(self) -> int:
        return hash(self.target)

    def __reduce__(self) -> Any:
        return (Profile, (self._base, self._changes))

    def _repr_html_(self) -> str:
        rows = [it[:4] for it in self._handle.parameters() if it[2] != "absent"]
        table = _html.table("", ["parameter", "value", "basis", "source"], rows)
        meta = (
            f"{self.target}: {self.capacity / 2**30:.1f} GiB, {self.spare * 100:.2f} % of physical spare"
        )
        return _html.block(self.summary, meta, table)
