//! Arrays of numbers that numpy reads without a copy.
//!
//! numpy reads the attribute `__array_interface__`: the address of the memory, the shape, the type. The array keeps the
//! object, and so the memory, as long as the array exists. It is marked as read-only.

use std::any::Any;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Numbers in memory that nobody changes any more.
#[pyclass(frozen, module = "ssdlab._ssdlab")]
pub struct Numbers {
    /// Owner of the memory, which keeps it allocated.
    _owner: Arc<dyn Any + Send + Sync>,
    address: usize,
    shape: Vec<usize>,
    code: &'static str,
}

/// Type of numbers that numpy supports.
pub trait Element: Send + Sync + 'static {
    /// Name of the type in numpy's array interface, without the byte order.
    const CODE: &'static str;
}

impl Element for f64 {
    const CODE: &'static str = "f8";
}

impl Element for u64 {
    const CODE: &'static str = "u8";
}

impl Element for bool {
    const CODE: &'static str = "b1";
}

impl Numbers {
    /// Returns the numbers that `select` returns of `owner`, without a copy.
    pub fn within<O: Send + Sync + 'static, T: Element>(
        owner: &Arc<O>,
        select: impl for<'a> Fn(&'a O) -> &'a [T],
    ) -> Numbers {
        let numbers = select(owner);
        let (address, shape) = (numbers.as_ptr() as usize, vec![numbers.len()]);
        Numbers { _owner: owner.clone(), address, shape, code: T::CODE }
    }

    /// Returns all of `numbers`.
    pub fn of<T: Element>(numbers: Vec<T>) -> Numbers {
        Numbers::within(&Arc::new(numbers), |numbers: &Vec<T>| numbers)
    }

    /// Returns all of `numbers` as rows of `columns` each.
    ///
    /// # Panics
    /// Panics if `numbers` is not a whole number of rows.
    pub fn rows<T: Element>(numbers: Vec<T>, columns: usize) -> Numbers {
        let rows = numbers.len().checked_div(columns).unwrap_or(0);
        assert_eq!(rows * columns, numbers.len(), "rows are whole");
        Numbers { shape: vec![rows, columns], ..Numbers::of(numbers) }
    }
}

#[pymethods]
impl Numbers {
    /// The memory, as numpy's array interface of version 3 has it.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let order = match (self.code, cfg!(target_endian = "little")) {
            ("b1", _) => '|',
            (_, true) => '<',
            (_, false) => '>',
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        interface.set_item("typestr", format!("{order}{}", self.code))?;
        interface.set_item("data", (self.address, true))?;
        Ok(interface)
    }

    fn __len__(&self) -> usize {
        self.shape[0]
    }
}
