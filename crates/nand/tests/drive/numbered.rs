//! What is under way, by number: the oldest and those behind it.

/// A table of the latest numbers, found by their lowest bits.
#[derive(Clone, Debug)]
pub struct Numbered<T> {
    places: Vec<T>,
}

impl<T: Copy> Numbered<T> {
    pub fn new(none: T) -> Numbered<T> {
        Numbered { places: vec![none; 64] }
    }

    /// Notes `value` under a number; those from `oldest` on are needed still.
    #[inline(always)]
    pub fn insert(&mut self, number: u64, oldest: u64, value: T) {
        if number - oldest >= self.places.len() as u64 {
            self.grow(oldest);
        }
        let mask = self.places.len() - 1;
        self.places[number as usize & mask] = value;
    }

    #[cold]
    fn grow(&mut self, oldest: u64) {
        let length = self.places.len() as u64;
        let from = |place: u64| oldest + (place.wrapping_sub(oldest) & (length - 1));
        let old = self.places.clone();
        self.places.extend_from_slice(&old);
        for place in 0..length {
            let mask = 2 * length - 1;
            self.places[(from(place) & mask) as usize] = old[place as usize];
        }
    }

    #[inline(always)]
    pub fn get(&self, number: u64) -> T {
        self.places[number as usize & (self.places.len() - 1)]
    }
}
