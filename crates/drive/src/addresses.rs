//! Which block comes next: sequential, random, or a random order without repeats.
