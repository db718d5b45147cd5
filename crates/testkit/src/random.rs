//! Numbers that look random and are the same for the same seed, on every machine: splitmix64, small and fast.

/// Such numbers, from a seed on.
pub struct Random(pub u64);

impl Random {
    /// Those of `seed`, which is printed: a test that fails is run again with it.
    #[allow(clippy::print_stdout)]
    pub fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self(seed)
    }

    /// The next one.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// The next one, below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit.max(1)
    }

    /// The same, as a place in something.
    pub fn place(&mut self, limit: usize) -> usize {
        self.below(limit as u64) as usize
    }
}

/// A number that looks random, made of another.
pub fn mix(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
