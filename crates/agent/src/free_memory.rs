//! Memory that has been used and is free: how long it is kept.
//!
//! Following uses again what it has freed, over and over: to give it back in between costs it a sixth more. What is done
//! beside it, chunk after chunk of all sizes, leaves ever more that is free, and a process is measured by its peak: while that
//! goes on, nothing is kept (`docs/performance.md`, "Following").

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// How long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Until it has not been used for a while.
    ForAWhile,
    /// Not at all.
    Nothing,
}

/// Has whoever knows the allocator of this process keep it as is best now.
#[derive(Clone)]
pub struct FreeMemory(Arc<Told>);

struct Told {
    tell: fn(Keep),
    /// How many works go on.
    works: Mutex<usize>,
}

/// As long as it is there, nothing is kept.
pub(crate) struct Thrift(FreeMemory);

impl FreeMemory {
    /// `tell` is told whenever that changes.
    pub fn kept_by(tell: fn(Keep)) -> Self {
        Self(Arc::new(Told { tell, works: Mutex::default() }))
    }

    /// A work begins beside following, and goes on until what this gives is dropped.
    pub(crate) fn be_thrifty(&self) -> Thrift {
        let mut works = self.0.works.lock().unwrap_or_else(PoisonError::into_inner);
        *works += 1;
        if *works == 1 {
            (self.0.tell)(Keep::Nothing);
        }
        Thrift(self.clone())
    }
}

/// As its allocator does it by itself.
impl Default for FreeMemory {
    fn default() -> Self {
        Self::kept_by(|_| {})
    }
}

impl Drop for Thrift {
    fn drop(&mut self) {
        let Told { tell, works } = &*self.0.0;
        let mut works = works.lock().unwrap_or_else(PoisonError::into_inner);
        *works -= 1;
        if *works == 0 {
            tell(Keep::ForAWhile);
        }
    }
}

impl fmt::Debug for FreeMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FreeMemory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static HEARD: Mutex<Vec<Keep>> = Mutex::new(Vec::new());

    #[test]
    fn nothing_is_kept_from_when_the_first_work_begins_until_the_last_has_ended() {
        let memory = FreeMemory::kept_by(|keep| HEARD.lock().unwrap().push(keep));
        let heard = || std::mem::take(&mut *HEARD.lock().unwrap());
        let (first, second) = (memory.be_thrifty(), memory.clone().be_thrifty());
        assert_eq!(heard(), [Keep::Nothing]);
        drop(first);
        assert_eq!(heard(), []);
        drop(second);
        assert_eq!(heard(), [Keep::ForAWhile]);
        drop(memory.be_thrifty());
        assert_eq!(heard(), [Keep::Nothing, Keep::ForAWhile]);
    }
}
