//! Result of the experiment `--proof`, which shows whether TRIM works on a file system, compared with what the layers
//! say.

use super::{Check, Diagnosis, Verdict};

/// Fate of a marker that was written to a file, deleted and trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimProof {
    /// The marker is gone from its place on the device.
    Gone,
    /// The marker is still there, and a layer is known to have stopped the trim.
    StillThere,
    /// The experiment could not tell.
    Inconclusive,
}

impl Diagnosis {
    /// Adds the result of an experiment on a target, in `message`, as the check `trim-proof`.
    pub fn prove(&mut self, target: &str, proof: TrimProof, message: &str) {
        let Some(found) = self.targets.iter_mut().find(|it| it.target == target) else { return };
        let reach = found.checks.iter().find_map(|check| check.reach.as_ref());
        let works = reach.and_then(|reach| reach.works);
        let contradicts = "The layers report otherwise: either a layer promises more than it does, \
                           or the machine has changed since it was examined.";
        let check = match (proof, works) {
            (TrimProof::Gone, Some(false)) => {
                Check::new("trim-proof", Verdict::Notice, message).with_reason(contradicts)
            }
            (TrimProof::Gone, _) => Check::new("trim-proof", Verdict::Fine, message),
            (TrimProof::StillThere, Some(true)) => {
                Check::new("trim-proof", Verdict::Problem, message).with_reason(contradicts)
            }
            (TrimProof::StillThere, _) => Check::new("trim-proof", Verdict::Problem, message),
            (TrimProof::Inconclusive, _) => Check::new("trim-proof", Verdict::Unknown, message),
        };
        if check.verdict > Verdict::Unknown {
            self.worst = self.worst.max(check.verdict);
        }
        found.checks.push(check);
    }
}
