//! Design of a sweep: the keys that are varied, the choice of points, and the check of all points before any run.

use rand::SeedableRng;
use rand::seq::{SliceRandom, index};
use rand_pcg::Pcg64;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ssdlab_blockio::RealOptions;
use ssdlab_lab::experiment::{Experiment, Plan, Settings};
use ssdlab_lab::memory::MemoryEstimate;
use ssdlab_lab::quick::quick;
use ssdlab_lab::{LabError, Target, cpu_estimate, target};
use ssdlab_model::profile::{SHORT_KEYS, parameter_keys};
use ssdlab_units::text::hint;

use crate::error::SweepError;
use crate::vary::{Dimension, Role, Varied};

/// Largest number of runs that is taken to be intended without an explicit number of points.
const MAX_UNSAMPLED_RUNS: usize = 100_000;

/// Largest number of runs of each point that is taken to be intended in a sweep of more than `MAX_UNSAMPLED_RUNS` runs.
const MAX_SEEDS: u32 = 1_000;

/// Largest number of runs of a sweep; each takes 8 KB of memory.
const MAX_RUNS: usize = 10_000_000;

/// Choice of points from the grid of all combinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sampling {
    /// All combinations.
    Grid,
    /// A Latin hypercube: each value of each key about as often as any other.
    Latin(usize),
    /// So many of all combinations, drawn without replacement.
    Random(usize),
}

/// Experiment, targets and varied keys of a sweep, as the user gave them.
#[derive(Clone)]
pub struct SweepRequest {
    /// Experiment to run.
    pub experiment: &'static dyn Experiment,
    /// Names of the targets; several targets are varied like a key.
    pub targets: Vec<String>,
    /// Keys that are varied, with their values.
    pub vary: Vec<Varied>,
    /// Other settings of the protocol that are changed.
    pub set: Vec<(String, String)>,
    /// True if the quick protocol is used.
    pub quick: bool,
    /// Seed of the first run of each point; further runs have the next numbers.
    pub seed: u64,
    /// Number of runs of each point.
    pub seeds: u32,
    /// Choice of points from the grid.
    pub sampling: Sampling,
}

/// A drive and the settings of a run on it.
pub struct RunSetup {
    /// Drive to run on.
    pub target: Target,
    /// Settings of the run.
    pub settings: Settings,
}

/// Point that cannot be run, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPoint {
    /// Index of the point.
    pub point: usize,
    /// Reason in words.
    pub why: String,
}

/// Memory and processor time that the runs of a sweep need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Largest need of memory of a single run; `None` on real drives.
    pub memory: Option<MemoryEstimate>,
    /// Estimated processor time of all runs; `None` if not known.
    pub processor: Option<std::time::Duration>,
}

/// Points of a sweep, in the order of the grid.
#[derive(Clone)]
pub struct Design {
    question: SweepRequest,
    dimensions: Vec<Dimension>,
    points: Vec<Vec<usize>>,
}

impl Design {
    /// Lays out the points, and checks what concerns all of them: unknown keys, keys that are given twice, nothing to
    /// vary, too many runs.
    ///
    /// # Errors
    /// Returns an error if one of these checks fails.
    pub fn new(mut question: SweepRequest) -> Result<Design, SweepError> {
        let usage = |text: String| Err(SweepError::Usage(text));
        let mut dimensions: Vec<Dimension> = Vec::new();
        if question.targets.len() > 1 {
            let values = question.targets.clone();
            dimensions.push(Dimension { key: TARGET.to_owned(), role: Role::Target, values });
        }
        let vary = std::mem::take(&mut question.vary);
        for Varied { key, values } in vary {
            if dimensions.iter().any(|known| known.key == key) {
                return usage(match key.as_str() {
                    TARGET => "targets are given twice: as operands and with --vary target=".into(),
                    _ => format!("{key} is varied twice; give all of its values to one --vary"),
                });
            }
            if key == TARGET {
                question.targets = values.clone();
                dimensions.push(Dimension { key, role: Role::Target, values });
                continue;
            }
            let role = role_of_key(&key, &question)?;
            dimensions.push(Dimension { key, role, values });
        }
        for Dimension { key, values, .. } in &dimensions {
            if let Some(twice) = (1..values.len()).find(|&at| values[..at].contains(&values[at])) {
                return usage(format!("{key} is given the value {} twice", values[twice]));
            }
        }
        if question.targets.is_empty() || question.seeds == 0 {
            return usage("there is nothing to run: name a target, and at least one seed".into());
        }
        if dimensions.iter().all(|one| one.values.len() < 2) && question.seeds == 1 {
            return usage(
                "nothing is varied: give --vary KEY=VALUE,VALUE,..., several targets, or --seeds"
                    .into(),
            );
        }
        let points = choose_points(&dimensions, question.sampling, question.seed, question.seeds)?;
        let design = Design { question, dimensions, points };
        design.refuse_mixed_targets()?;
        Ok(design)
    }

    /// Refuses to mix simulated and real drives. Real drives are measured one at a time and in random order, simulated
    /// ones in parallel.
    fn refuse_mixed_targets(&self) -> Result<(), SweepError> {
        let mut kinds = Vec::new();
        for name in &self.question.targets {
            kinds.push(Target::parse(name)?.is_simulated());
        }
        if kinds.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(SweepError::Usage(
                "a sweep cannot mix simulated and real drives: make one of each, and compare them"
                    .to_owned(),
            ));
        }
        let varies_drive = self.dimensions.iter().find(|one| one.role == Role::Drive);
        match varies_drive {
            Some(Dimension { key, .. }) if kinds.first() == Some(&false) => {
                Err(SweepError::Usage(format!(
                    "{key} is a parameter of simulated drives; on a real one only settings of the \
                     experiment and targets can be varied"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the experiment.
    pub fn experiment(&self) -> &'static dyn Experiment {
        self.question.experiment
    }

    /// Returns the question, as the user gave it.
    pub fn question(&self) -> &SweepRequest {
        &self.question
    }

    /// Returns the keys that are varied.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// Returns the level of each key at each point.
    pub fn points(&self) -> &[Vec<usize>] {
        &self.points
    }

    /// Returns the seeds of the runs of each point. They are the same for all points, so differences between points do
    /// not come from random numbers.
    pub fn seeds(&self) -> Vec<u64> {
        let first = self.question.seed;
        (0..u64::from(self.question.seeds)).map(|index| first.wrapping_add(index)).collect()
    }

    /// Returns true if the targets are real drives.
    pub fn is_real(&self) -> bool {
        self.question
            .targets
            .first()
            .is_some_and(|name| Target::parse(name).is_ok_and(|target| !target.is_simulated()))
    }

    /// Returns the values of the keys at `point`.
    pub fn values(&self, point: usize) -> Vec<String> {
        let levels = self.points[point].iter().zip(&self.dimensions);
        levels.map(|(&level, dimension)| dimension.values[level].clone()).collect()
    }

    /// Returns `key=value` for each key at `point`, for use in a sentence.
    pub fn words(&self, point: usize) -> String {
        let values = self.values(point);
        let pairs = self.dimensions.iter().zip(values);
        let words: Vec<String> = pairs.map(|(it, value)| format!("{}={value}", it.key)).collect();
        if words.is_empty() { self.question.targets[0].clone() } else { words.join(" ") }
    }

    /// Returns the name of the target at `point`, with the varied parameters of the drive.
    ///
    /// # Errors
    /// Returns an error if the target cannot be read.
    pub fn target_name(&self, point: usize) -> Result<String, LabError> {
        let levels = || self.points[point].iter().zip(&self.dimensions);
        let of_target = levels().find(|(_, dimension)| dimension.role == Role::Target);
        let name = of_target.map_or(&self.question.targets[0], |(&level, it)| &it.values[level]);
        let mut changes: Vec<(&str, &str)> = levels()
            .filter(|(_, dimension)| dimension.role == Role::Drive)
            .map(|(&level, dimension)| (dimension.key.as_str(), dimension.values[level].as_str()))
            .collect();
        if changes.is_empty() {
            return Ok(name.clone());
        }
        // The order in which keys are varied must not change the name of the drive.
        changes.sort_unstable();
        let target = Target::parse(name)?;
        Ok(target.name_with(&changes).unwrap_or_else(|| name.clone()))
    }

    /// Returns the drive and the settings of a run of `point`.
    ///
    /// # Errors
    /// Returns an error if there is no such drive, or if the settings are not valid.
    pub fn case(&self, point: usize, seed: u64) -> Result<RunSetup, LabError> {
        let experiment = self.question.experiment;
        let target = Target::seeded(&self.target_name(point)?, seed)?;
        let levels = self.points[point].iter().zip(&self.dimensions);
        let varied = levels
            .filter(|(_, dimension)| dimension.role == Role::Setting)
            .map(|(&level, it)| (it.key.clone(), it.values[level].clone()));
        let set: Vec<_> = self.question.set.iter().cloned().chain(varied).collect();
        let (settings, target) = match self.question.quick {
            true => quick(experiment, target, seed, &set)?,
            false => (Settings::new(experiment, false, &set)?, target),
        };
        Ok(RunSetup { target, settings })
    }

    /// Checks every point before any is run. Returns the points that cannot be run, and what the others need.
    pub fn check(&self) -> (Vec<InvalidPoint>, Cost) {
        let seed = self.question.seed;
        let checked: Vec<Result<Cost, LabError>> = (0..self.points.len())
            .into_par_iter()
            .map(|point| requirements_of(self.question.experiment, &self.case(point, seed)?))
            .collect();
        let mut impossible = Vec::new();
        let mut cost = Cost::default();
        for (point, one) in checked.into_iter().enumerate() {
            match one {
                Err(error) => impossible.push(InvalidPoint { point, why: error_chain(&error) }),
                Ok(one) => {
                    let larger = |it: &MemoryEstimate| {
                        cost.memory.is_none_or(|known| known.least() < it.least())
                    };
                    cost.memory = one.memory.filter(larger).or(cost.memory);
                    let runs = self.question.seeds;
                    let sum =
                        one.processor.map(|time| cost.processor.unwrap_or_default() + time * runs);
                    cost.processor = sum.or(cost.processor);
                }
            }
        }
        (impossible, cost)
    }
}

/// Name of the key for targets.
pub(crate) const TARGET: &str = "target";

/// Returns the role of a key: a setting of the experiment or a parameter of the drive.
fn role_of_key(key: &str, question: &SweepRequest) -> Result<Role, SweepError> {
    let experiment = question.experiment;
    let usage = |text: String| Err(SweepError::Usage(text));
    if key == "seed" {
        return usage("seeds are not varied like a key: --seeds N runs each point N times".into());
    }
    if experiment.parameters().iter().any(|spec| spec.name == key) {
        if question.set.iter().any(|(name, _)| name == key) {
            return usage(format!("{key} is both set and varied; leave one of them out"));
        }
        return Ok(Role::Setting);
    }
    let is_option =
        target::stacks().iter().any(|kind| kind.options.iter().any(|it| it.name == key));
    let is_parameter = SHORT_KEYS.iter().chain(parameter_keys()).any(|known| *known == key);
    if is_option || is_parameter {
        return Ok(Role::Drive);
    }
    let settings = experiment.parameters().iter().map(|spec| spec.name);
    let known = settings.chain(SHORT_KEYS).chain(parameter_keys().iter().copied()).chain([TARGET]);
    let hint = match hint(key, known) {
        hint if hint.starts_with("did you mean") => hint,
        _ => format!(
            "'ssdlab list experiments {}' shows its settings, 'ssdlab list profiles --keys' those of \
             simulated drives",
            experiment.name()
        ),
    };
    usage(format!("there is no key '{key}' to vary; {hint}"))
}

fn choose_points(
    dimensions: &[Dimension],
    sampling: Sampling,
    seed: u64,
    seeds: u32,
) -> Result<Vec<Vec<usize>>, SweepError> {
    let lengths: Vec<usize> = dimensions.iter().map(|it| it.values.len()).collect();
    let product = lengths.iter().try_fold(1_usize, |all, &length| all.checked_mul(length));
    let all = product.unwrap_or(usize::MAX);
    let wanted = match sampling {
        Sampling::Grid => all,
        Sampling::Latin(points) | Sampling::Random(points) => points.min(all),
    };
    if wanted == 0 {
        return Err(SweepError::Usage("--points 0 leaves nothing to run".to_owned()));
    }
    let runs = wanted.saturating_mul(seeds as usize);
    let too_many = |way_out: String| {
        let all = format!("this sweep has {wanted} points of {seeds} runs each");
        Err(SweepError::Usage(format!("{all}, {way_out}")))
    };
    if runs > MAX_RUNS {
        return too_many(format!(
            "and a sweep holds {MAX_RUNS} runs at most; split it by the values of a key"
        ));
    }
    if runs > MAX_UNSAMPLED_RUNS && seeds > MAX_SEEDS {
        return too_many(format!(
            "and more than {MAX_SEEDS} runs of a point are refused as a likely mistake; --seeds 5 \
             gives an interval"
        ));
    }
    if runs > MAX_UNSAMPLED_RUNS && matches!(sampling, Sampling::Grid) {
        return too_many(format!(
            "and more than {MAX_UNSAMPLED_RUNS} runs are refused as a likely mistake; --points \
             {wanted} makes all of them, --points 1000 a sample"
        ));
    }
    let mut random = Pcg64::seed_from_u64(seed);
    Ok(match sampling {
        Sampling::Latin(points) if points < all => latin_hypercube(&lengths, points, &mut random),
        Sampling::Random(points) if points < all => {
            let mut drawn = index::sample(&mut random, all, points).into_vec();
            drawn.sort_unstable();
            drawn.into_iter().map(|number| levels_of_point(number, &lengths)).collect()
        }
        _ => (0..all).map(|number| levels_of_point(number, &lengths)).collect(),
    })
}

/// Returns the level of each key at the point `number` of the grid, in which the last key changes fastest.
fn levels_of_point(mut number: usize, lengths: &[usize]) -> Vec<usize> {
    let mut levels: Vec<usize> = lengths
        .iter()
        .rev()
        .map(|length| {
            let level = number % length;
            number /= length;
            level
        })
        .collect();
    levels.reverse();
    levels
}

/// Returns a Latin hypercube of levels (M. D. McKay, R. J. Beckman, W. J. Conover, Technometrics 21, 1979): the range
/// of each key is cut into as many strata as there are points, and each stratum is used once. Points that are drawn
/// twice are kept once.
fn latin_hypercube(lengths: &[usize], points: usize, random: &mut Pcg64) -> Vec<Vec<usize>> {
    let columns: Vec<Vec<usize>> = lengths
        .iter()
        .map(|&length| {
            let mut column: Vec<usize> = (0..points).map(|at| at * length / points).collect();
            column.shuffle(random);
            column
        })
        .collect();
    let mut drawn: Vec<Vec<usize>> =
        (0..points).map(|point| columns.iter().map(|column| column[point]).collect()).collect();
    drawn.sort_unstable();
    drawn.dedup();
    drawn
}

/// Opens a simulated drive to check that the run is possible, and returns its need of memory and time.
fn requirements_of(experiment: &dyn Experiment, case: &RunSetup) -> Result<Cost, LabError> {
    if !case.target.is_simulated() {
        return Ok(Cost::default());
    }
    let plan = plan(experiment, case)?;
    Ok(Cost {
        memory: MemoryEstimate::of(&case.target, &plan),
        processor: cpu_estimate::cpu_time(&plan, &case.target),
    })
}

fn plan(experiment: &dyn Experiment, case: &RunSetup) -> Result<Plan, LabError> {
    let mut drive = case.target.open(&RealOptions::default())?;
    let plan = experiment.plan(&case.settings, &drive.description())?;
    plan.check_blocks(&drive.description())?;
    drive.prepare(plan.space)?;
    Ok(plan)
}

/// Returns an error and its causes in one sentence, without causes that the text already contains.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        next = cause.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ssdlab_lab::experiment;

    fn question(targets: &[&str], vary: &[&str]) -> SweepRequest {
        SweepRequest {
            experiment: experiment::named("steady").unwrap(),
            targets: targets.iter().map(|it| (*it).to_owned()).collect(),
            vary: vary.iter().map(|text| Varied::parse(text).unwrap()).collect(),
            set: Vec::new(),
            quick: true,
            seed: 1,
            seeds: 2,
            sampling: Sampling::Grid,
        }
    }

    fn error(question: SweepRequest) -> String {
        error_chain(&Design::new(question).err().expect("it makes no sense"))
    }

    #[test]
    fn the_grid_has_every_combination_once_in_order() {
        let design = Design::new(question(&["sim:"], &["spare=7%,28%", "depth=1,4,32"])).unwrap();
        assert_eq!(design.points().len(), 6);
        assert_eq!(design.words(0), "spare=7% depth=1");
        assert_eq!(design.words(1), "spare=7% depth=4");
        assert_eq!(design.words(5), "spare=28% depth=32");
        assert_eq!(design.target_name(5).unwrap(), "sim:generic-tlc,spare=28%");
        let case = design.case(5, 1).unwrap();
        assert_eq!(case.settings.count("depth"), 32);
        assert_eq!(design.seeds(), [1, 2]);
    }

    #[test]
    fn targets_and_options_of_stacks_are_varied_like_keys() {
        let stacks = question(&["raid1(sim:;sim:)", "usb(sim:)"], &["trim=on,off"]);
        let design = Design::new(stacks).unwrap();
        assert_eq!(design.words(1), "target=raid1(sim:;sim:) trim=off");
        assert!(design.target_name(1).unwrap().ends_with("),trim=off"));
        assert!(design.case(1, 1).is_ok());
    }

    #[test]
    fn what_makes_no_sense_is_said_before_anything_runs() {
        let wrong = |vary: &[&str]| error(question(&["sim:"], vary));
        assert!(
            wrong(&["spaer=7%,28%"]).contains("did you mean spare?"),
            "{}",
            wrong(&["spaer=1,2"])
        );
        assert!(wrong(&["zebra=7%,28%"]).contains("list profiles --keys"));
        assert!(wrong(&["spare=7%,28%", "spare=9%,10%"]).contains("varied twice"));
        assert!(wrong(&["spare=7%,7%"]).contains("the value 7% twice"));
        assert!(wrong(&["seed=1,2"]).contains("--seeds N"));
        let numbers: Vec<String> = (0..1000).map(|it| it.to_string()).collect();
        let many = format!("depth={}", numbers.join(","));
        let more = format!("flash.page_read={}", numbers.join(","));
        let error_of_many = wrong(&[&many, &more]);
        assert!(error_of_many.contains("1000000 points of 2 runs"), "{error_of_many}");
        assert!(error_of_many.contains("--points 1000000 makes all of them"), "{error_of_many}");
        let mut meant = question(&["sim:"], &[&many, &more]);
        meant.sampling = Sampling::Latin(1_000_000);
        assert_eq!(Design::new(meant.clone()).unwrap().points().len(), 1_000_000);
        meant.seeds = 11;
        assert!(error(meant).contains("10000000 runs at most"));
        let mut often = question(&["sim:"], &["depth=1,2"]);
        often.seeds = 1_000_000;
        assert!(error(often).contains("--seeds 5"));
        let mut set = question(&["sim:"], &["depth=1,2"]);
        set.set.push(("depth".to_owned(), "4".to_owned()));
        assert!(error(set).contains("both set and varied"));
        let mut one = question(&["sim:"], &[]);
        one.seeds = 1;
        assert!(error(one).contains("nothing is varied"));
        assert!(error(question(&["sim:", "src"], &[])).contains("make one of each"));
        assert!(error(question(&["src"], &["spare=7%,28%"])).contains("of simulated drives"));
    }

    #[test]
    fn impossible_points_are_named_and_the_others_counted() {
        let design = Design::new(question(&["sim:"], &["spare=0%,7%,99%"])).unwrap();
        let (impossible, cost) = design.check();
        let points: Vec<usize> = impossible.iter().map(|it| it.point).collect();
        assert_eq!(points, [0, 2]);
        assert!(impossible[0].why.contains("above 0%"), "{}", impossible[0].why);
        assert!(cost.memory.is_some() && cost.processor.unwrap().as_secs_f64() > 0.0);
    }

    proptest! {
        #[test]
        fn a_latin_hypercube_uses_every_level_alike(
            lengths in proptest::collection::vec(1_usize..6, 1..5),
            points in 1_usize..40,
            seed: u64,
        ) {
            let mut random = Pcg64::seed_from_u64(seed);
            let columns = lengths.clone();
            let drawn = latin_hypercube(&columns, points, &mut random);
            prop_assert!(drawn.len() <= points);
            if lengths.len() == 1 {
                // With one key the sample has as many levels as there are points for.
                prop_assert_eq!(drawn.len(), points.min(lengths[0]));
            }
            for (key, &length) in lengths.iter().enumerate() {
                let mut levels: Vec<usize> = drawn.iter().map(|point| point[key]).collect();
                levels.sort_unstable();
                levels.dedup();
                prop_assert!(levels.iter().all(|level| *level < length));
                prop_assert_eq!(levels.len(), points.min(length));
            }
        }

        #[test]
        fn a_random_sample_has_as_many_points_as_asked_and_none_twice(
            points in 1_usize..30,
            seed: u64,
        ) {
            let dimension = |key: &str, count: usize| Dimension {
                key: key.to_owned(),
                role: Role::Drive,
                values: (0..count).map(|it| it.to_string()).collect(),
            };
            let all = [dimension("a", 3), dimension("b", 4), dimension("c", 2)];
            let drawn = super::choose_points(&all, Sampling::Random(points), seed, 1).unwrap();
            prop_assert_eq!(drawn.len(), points.min(24));
            let mut sorted = drawn.clone();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(sorted.len(), drawn.len());
        }
    }
}
