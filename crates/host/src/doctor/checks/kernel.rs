//! Check of the kernel's version: does it support TRIM?

use crate::doctor::{Check, Context, Verdict};
use crate::layers::LayerKind;

/// First kernel with TRIM for a single disk and LVM; `MIN_FOR_MD` is the first for md RAID (a how-to on TRIM under
/// Linux; kernelnewbies.org, Linux 2.6.33 and 3.7).
const MIN_FOR_DISK: (u32, u32, u32) = (2, 6, 33);
const MIN_FOR_MD: (u32, u32, u32) = (3, 7, 0);

pub(super) fn check(context: &Context) -> Check {
    let release = &context.machine.release;
    let Some(version) = version(release) else {
        return Check::new("kernel", Verdict::Unknown, format!("Linux {release}"));
    };
    let has_md = || {
        let layers = context.stacks.iter().flat_map(|stack| stack.top.self_and_below());
        layers.into_iter().any(|layer| matches!(layer.kind, LayerKind::Md { .. }))
    };
    let seen = format!("Linux {release}");
    let update = |check: Check| check.with_remedy("Use a newer kernel", None);
    match version {
        old if old < MIN_FOR_DISK => update(
            Check::new("kernel", Verdict::Problem, seen)
                .with_reason("It knows no TRIM: that came with 2.6.33."),
        ),
        old if old < MIN_FOR_MD && has_md() => update(
            Check::new("kernel", Verdict::Problem, seen)
                .with_reason("Its md RAID passes no TRIM: that came with 3.7."),
        ),
        _ => Check::new("kernel", Verdict::Fine, format!("{seen}, which knows TRIM on all layers")),
    }
}

fn version(release: &str) -> Option<(u32, u32, u32)> {
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || parts.next().and_then(|part| part.parse().ok());
    Some((next()?, next()?, next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn releases_are_read_whatever_follows_the_numbers() {
        assert_eq!(super::version("6.12.41+deb13-amd64"), Some((6, 12, 41)));
        assert_eq!(super::version("3.7"), Some((3, 7, 0)));
        assert_eq!(super::version("unknown"), None);
    }
}
