//! Conversion of parameter values to text and back.

use crate::mapping::MappingScheme;
use crate::profile::{CollectionUnit, DeliveryOrder, Length, Span};
use crate::text::{
    QuantityError, exact_duration, exact_length, parse_duration, parse_length, parse_switch,
};

/// A type of parameter values.
pub(crate) trait Quantity: Sized {
    fn read(text: &str) -> Result<Self, QuantityError>;
    fn show(&self) -> String;
}

fn read_with<T: std::str::FromStr>(text: &str, expected: &'static str) -> Result<T, QuantityError> {
    text.trim().parse().map_err(|_| QuantityError { text: text.to_owned(), expected })
}

impl Quantity for u32 {
    fn read(text: &str) -> Result<Self, QuantityError> {
        read_with(text, "a whole number")
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Quantity for f64 {
    fn read(text: &str) -> Result<Self, QuantityError> {
        read_with(text, "a number")
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Quantity for bool {
    fn read(text: &str) -> Result<Self, QuantityError> {
        parse_switch(text)
    }
    fn show(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }
}

impl Quantity for Length {
    fn read(text: &str) -> Result<Self, QuantityError> {
        parse_length(text).map(Length)
    }
    fn show(&self) -> String {
        exact_length(self.0)
    }
}

impl Quantity for Span {
    fn read(text: &str) -> Result<Self, QuantityError> {
        parse_duration(text).map(Span)
    }
    fn show(&self) -> String {
        exact_duration(self.0)
    }
}

impl Quantity for CollectionUnit {
    fn read(text: &str) -> Result<Self, QuantityError> {
        match text.trim() {
            "superblock" => Ok(CollectionUnit::Superblock),
            "block" => Ok(CollectionUnit::Block),
            _ => Err(QuantityError { text: text.to_owned(), expected: "superblock or block" }),
        }
    }
    fn show(&self) -> String {
        match self {
            CollectionUnit::Superblock => "superblock",
            CollectionUnit::Block => "block",
        }
        .to_owned()
    }
}

impl Quantity for DeliveryOrder {
    fn read(text: &str) -> Result<Self, QuantityError> {
        match text.trim() {
            "in-order" => Ok(DeliveryOrder::InOrder),
            "any-order" => Ok(DeliveryOrder::AnyOrder),
            "when-complete" => Ok(DeliveryOrder::WhenComplete),
            _ => Err(QuantityError {
                text: text.to_owned(),
                expected: "in-order, any-order or when-complete",
            }),
        }
    }
    fn show(&self) -> String {
        match self {
            DeliveryOrder::InOrder => "in-order",
            DeliveryOrder::AnyOrder => "any-order",
            DeliveryOrder::WhenComplete => "when-complete",
        }
        .to_owned()
    }
}

impl Quantity for MappingScheme {
    fn read(text: &str) -> Result<Self, QuantityError> {
        match text.trim() {
            "page" => Ok(MappingScheme::Page),
            "cached" => Ok(MappingScheme::Cached),
            "extent" => Ok(MappingScheme::Extent),
            "log-block" => Ok(MappingScheme::LogBlock),
            _ => Err(QuantityError {
                text: text.to_owned(),
                expected: "page, cached, extent or log-block",
            }),
        }
    }
    fn show(&self) -> String {
        match self {
            MappingScheme::Page => "page",
            MappingScheme::Cached => "cached",
            MappingScheme::Extent => "extent",
            MappingScheme::LogBlock => "log-block",
        }
        .to_owned()
    }
}
