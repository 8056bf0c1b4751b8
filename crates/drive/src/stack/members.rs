//! The drives below a layer. Copies of one drive are simulated once, until a request goes to one of them
//! alone: so a mirror of copies costs as much as one drive while it is only written.

use ssdlab_units::Instant;

use crate::simulated::model::Model;
use crate::simulated::responder::{Answer, Request, Tag};

/// The members that a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    /// The member with this number.
    One(usize),
    /// All members.
    All,
}

/// Members of a stack, in their order.
#[derive(Clone)]
pub(super) struct Members {
    /// One model for each member, or one that stands for all of them.
    models: Vec<Box<dyn Model>>,
    count: usize,
}

impl Members {
    pub(super) fn new(models: Vec<Box<dyn Model>>) -> Members {
        Members { count: models.len(), models }
    }

    /// Returns `count` members, each a copy of `model`.
    pub(super) fn copies_of(model: &dyn Model, count: usize) -> Members {
        Members { models: vec![model.boxed_clone()], count }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns each member, whether or not it has a model of its own.
    pub(super) fn each(&self) -> impl Iterator<Item = &dyn Model> {
        self.models.iter().map(|it| &**it).cycle().take(self.count)
    }

    /// Returns the member with the number `member`.
    pub(super) fn get(&self, member: usize) -> &dyn Model {
        &*self.models[member % self.models.len()]
    }

    /// Returns the models of all members. What is done to all members is done once to each of these.
    pub(super) fn models_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Model>> {
        self.models.iter_mut()
    }

    /// Gives each member a model of its own, so that something can be done to one of them.
    pub(super) fn separate(&mut self) {
        let missing = self.count - self.models.len();
        let copies: Vec<_> = (0..missing).map(|_| self.models[0].boxed_clone()).collect();
        self.models.extend(copies);
    }

    /// Sends a request at `at`; returns the number of members that it goes to.
    pub(super) fn submit(
        &mut self,
        receiver: Receiver,
        at: Instant,
        tag: Tag,
        request: Request,
    ) -> u32 {
        match receiver {
            Receiver::One(member) => {
                self.separate();
                self.models[member].submit(at, tag, request);
                1
            }
            Receiver::All => {
                self.models.iter_mut().for_each(|it| it.submit(at, tag, request));
                self.count as u32
            }
        }
    }

    /// Returns the instant of the next event of a member.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.models.iter().filter_map(|it| it.next_due()).min()
    }

    /// Processes the events of the earliest instant at which one is due, if that is until `until`: one event of
    /// each member that has one then, so that members that are equal stay equal. Adds the answers to `answers`.
    /// Returns the instant, and the number of members that have given each answer.
    pub(super) fn advance(
        &mut self,
        until: Instant,
        answers: &mut Vec<Answer>,
    ) -> Option<(Instant, u32)> {
        let due = self.next_due().filter(|due| *due <= until)?;
        for model in &mut self.models {
            if model.next_due() == Some(due) {
                model.advance(due, answers);
            }
        }
        let alike = self.count / self.models.len();
        Some((due, alike as u32))
    }
}
