//! Parameters whose value is one of a few words.

use serde::Deserialize;

use super::parameters::Quantity;
use crate::flush::{FlushHandling, WriteCache};
use crate::policy::{Allocation, CopiesTo};
use crate::slc::{SlcSpace, WhenFull};
use crate::text::QuantityError;
use crate::trim::ReadsAfterTrim;
use ssdlab_nand::suspend::{SuspendWhen, Suspendable};

/// Implements reading and showing of a type with a few variants, each by its word.
macro_rules! keywords {
    ($type:ident, $expected:literal, $($word:literal => $variant:ident),* $(,)?) => {
        impl Quantity for $type {
            fn read(text: &str) -> Result<Self, QuantityError> {
                match text.trim() {
                    $($word => Ok($type::$variant),)*
                    _ => Err(QuantityError { text: text.to_owned(), expected: $expected }),
                }
            }
            fn show(&self) -> String {
                match self {
                    $($type::$variant => $word,)*
                }
                .to_owned()
            }
        }
    };
}

/// Victim policy, by its word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PolicyName {
    #[default]
    Greedy,
    Fifo,
    Random,
    DChoices,
    CostBenefit,
}

/// Pace of garbage collection, by its word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PacingName {
    #[default]
    Paced,
    Bursty,
    Ratio,
}

/// Wear levelling, by its word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LevellingName {
    #[default]
    Off,
    Dynamic,
    Static,
}

keywords!(
    LevellingName,
    "off, dynamic or static",
    "off" => Off,
    "dynamic" => Dynamic,
    "static" => Static,
);
keywords!(
    PolicyName,
    "greedy, fifo, random, d-choices or cost-benefit",
    "greedy" => Greedy,
    "fifo" => Fifo,
    "random" => Random,
    "d-choices" => DChoices,
    "cost-benefit" => CostBenefit,
);
keywords!(
    PacingName,
    "paced, bursty or ratio",
    "paced" => Paced,
    "bursty" => Bursty,
    "ratio" => Ratio,
);
keywords!(
    SuspendWhen,
    "always or buffer-has-room",
    "always" => Always,
    "buffer-has-room" => BufferHasRoom,
);
keywords!(Allocation, "dynamic or static", "dynamic" => Dynamic, "static" => Static);
keywords!(
    CopiesTo,
    "own-block or host-block",
    "own-block" => OwnBlock,
    "host-block" => HostBlock,
);
keywords!(FlushHandling, "honest or ignored", "honest" => Honest, "ignored" => Ignored);
keywords!(
    WriteCache,
    "write-back or write-through",
    "write-back" => WriteBack,
    "write-through" => WriteThrough,
);
keywords!(
    Suspendable,
    "off, program, erase or both",
    "off" => Off,
    "program" => Program,
    "erase" => Erase,
    "both" => Both,
);
keywords!(
    ReadsAfterTrim,
    "zeros, ones or undefined",
    "zeros" => Zeros,
    "ones" => Ones,
    "undefined" => Undefined,
);
keywords!(SlcSpace, "fixed or dynamic", "fixed" => Fixed, "dynamic" => Dynamic);
keywords!(WhenFull, "direct or fold", "direct" => Direct, "fold" => Fold);
