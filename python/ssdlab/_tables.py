"""Tables of reports: columns that numpy, pandas and Arrow take over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ._errors import UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from ._ssdlab import _Column as Column


class _HasTables(Protocol):
    def table_names(self) -> list[str]: ...

    def table(self, index: int) -> tuple[list[Column], int]: ...


def pandas() -> Any:
    """pandas, which is a dependency of the package, but not of its import."""
    import pandas

    return pandas


def arrow() -> Any:
    """pyarrow, where it is installed."""
    try:
        import pyarrow
    except ImportError:
        raise UnsupportedError("this needs pyarrow: pip install 'ssdlab[arrow]'") from None
    return pyarrow


class Table:
    """A table of a report.

    Attributes
    ----------
    name : str
        Its name, such as ``"steady"``.
    units : dict of str to str
        The unit of each column; empty text where there is none.
    keys : list of str
        The leading columns, which say what a row is about.
    """

    def __init__(self, name: str, columns: list[Column], keys: int) -> None:
        self.name = name
        self._columns = columns
        self.units = {column[0]: column[1] for column in columns}
        self.keys = [column[0] for column in columns[:keys]]

    def __len__(self) -> int:
        return len(self._columns[0][3]) if self._columns else 0

    def numpy(self, column: str) -> npt.NDArray[Any]:
        """One column as an array.

        Numbers and booleans lie where the library has put them, and are not copied; the array cannot be
        written to. What was not measured is ``nan`` among fractions, 0 among whole numbers (`missing` tells
        them apart), ``None`` among words.

        Parameters
        ----------
        column : str
            A name of `units`.

        Returns
        -------
        numpy.ndarray, shape (len(self),)
        """
        import numpy as np

        for name, _, kind, values, _ in self._columns:
            if name == column:
                return np.asarray(values, dtype=object if kind == "text" else None)
        raise KeyError(f"{self.name} has no column {column!r}; there are: {', '.join(self.units)}")

    def missing(self, column: str) -> npt.NDArray[np.bool_]:
        """Where a column has no value, as an array of shape (len(self),)."""
        import numpy as np

        for name, _, _, _, gaps in self._columns:
            if name == column:
                return np.zeros(len(self), bool) if gaps is None else np.asarray(gaps)
        raise KeyError(f"{self.name} has no column {column!r}; there are: {', '.join(self.units)}")

    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame, with `units` in its ``attrs["units"]``.

        Whole numbers and booleans of which some were not measured have pandas' nullable types.
        """
        pd = pandas()
        frame = {}
        for name, _, kind, _, gaps in self._columns:
            values = self.numpy(name)
            if gaps is not None and kind in ("int", "bool"):
                array = pd.arrays.IntegerArray if kind == "int" else pd.arrays.BooleanArray
                values = array(values.copy(), self.missing(name).copy())
            frame[name] = values
        table = pd.DataFrame(frame, copy=False)
        table.attrs["units"] = dict(self.units)
        table.attrs["name"] = self.name
        return table  # type: ignore[no-any-return]

    def to_arrow(self) -> Any:
        """The table as a `pyarrow.Table`, with the unit of each column in the metadata of its field.

        Numbers of which none is missing are not copied. Needs pyarrow (``pip install 'ssdlab[arrow]'``).
        """
        pa = arrow()
        fields, arrays = [], []
        for name, unit, _, _, gaps in self._columns:
            values = pa.array(self.numpy(name), mask=None if gaps is None else self.missing(name))
            arrays.append(values)
            metadata = {"unit": unit} if unit else None
            fields.append(pa.field(name, values.type, metadata=metadata))
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The Arrow PyCapsule interface: polars, DuckDB and others read the table by it."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<table {self.name!r}: {len(self)} rows of {', '.join(self.units)}>"


class Tables(Mapping[str, "pd.DataFrame"]):
    """The tables of a report by name, as data frames; made when they are asked for.

    ``tables.raw(name)`` is the `Table` itself, for numpy and Arrow.
    """

    def __init__(self, source: _HasTables) -> None:
        self._source = source
        self._names = source.table_names()
        self._frames: dict[str, pd.DataFrame] = {}

    def raw(self, name: str) -> Table:
        """The table of this name as a `Table`."""
        if name not in self._names:
            raise KeyError(f"there is no table {name!r}; there are: {', '.join(self._names) or 'none'}")
        return Table(name, *self._source.table(self._names.index(name)))

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._frames:
            self._frames[name] = self.raw(name).to_pandas()
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<tables: {', '.join(self._names) or 'none'}>"
