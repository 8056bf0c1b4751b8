"""Closed forms of write amplification: what a drive in steady state must come to.

All of them describe one drive: full, written one unit at a time at uniformly random places unless said
otherwise, with so many blocks that chance averages out. Spare is a share of the logical capacity
(`Profile.spare_of_logical`), as a number or an array; the result has the same shape. ``docs/THEORY.md`` has
the derivations.

Examples
--------
>>> from ssdlab import theory
>>> theory.greedy(0.07, units_per_block=128) < theory.fifo(0.07) < theory.random(0.07)
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _ssdlab

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "d_choices",
    "fifo",
    "greedy",
    "hot_cold_one_stream",
    "hot_cold_two_streams",
    "random",
    "spare_with_trim",
]


def _each(spare: npt.ArrayLike, form: Callable[[list[float]], Any]) -> Any:
    import numpy as np

    shares = np.asarray(spare, dtype=float)
    values = np.asarray(form(shares.ravel().tolist())).reshape(shares.shape)
    return float(values) if shares.ndim == 0 else values


def random(spare: npt.ArrayLike) -> Any:
    """Write amplification with victims drawn at random: 1 / (1 - rho).

    Parameters
    ----------
    spare : float or array
        Spare as a share of logical, above 0.

    Returns
    -------
    float or numpy.ndarray of the same shape

    Raises
    ------
    UsageError
        When a share is out of range.
    """
    return _each(spare, _ssdlab.random)


def fifo(spare: npt.ArrayLike) -> Any:
    """Write amplification with the block written longest ago as victim (also LRU); see `random`."""
    return _each(spare, _ssdlab.fifo)


def greedy(spare: npt.ArrayLike, units_per_block: int) -> Any:
    """Write amplification with the block with the fewest valid units as victim.

    Parameters
    ----------
    spare : float or array
        Spare as a share of logical, above 0.
    units_per_block : int
        Mapping units of what is collected at a time (`Profile.units_per_block`).

    Returns
    -------
    float or numpy.ndarray of the same shape
    """
    return _each(spare, lambda shares: _ssdlab.greedy(shares, units_per_block))


def d_choices(spare: npt.ArrayLike, units_per_block: int, choices: int) -> Any:
    """Write amplification with the best of so many blocks drawn at random as victim; see `greedy`."""
    return _each(spare, lambda shares: _ssdlab.d_choices(shares, units_per_block, choices))


def hot_cold_one_stream(spare: npt.ArrayLike, hot_writes: float, hot_pages: float) -> Any:
    """Write amplification of FIFO with hot and cold pages in the same blocks.

    Parameters
    ----------
    spare : float or array
        Spare as a share of logical, above 0.
    hot_writes, hot_pages : float
        The share of the writes that goes to the share of the pages that is hot, such as 0.8 and 0.2.

    Returns
    -------
    float or numpy.ndarray of the same shape
    """
    return _each(spare, lambda shares: _ssdlab.hot_cold_one_stream(shares, hot_writes, hot_pages))


def hot_cold_two_streams(spare: npt.ArrayLike, hot_writes: float, hot_pages: float) -> Any:
    """Write amplification of FIFO in a stream of hot and one of cold pages, with the best split of the spare."""
    return _each(spare, lambda shares: _ssdlab.hot_cold_two_streams(shares, hot_writes, hot_pages))


def spare_with_trim(spare: npt.ArrayLike, trim_share: float) -> Any:
    """The spare that there is once a share of the requests trims, from 0 to below 0.5."""
    return _each(spare, lambda shares: _ssdlab.trimmed(shares, trim_share))
