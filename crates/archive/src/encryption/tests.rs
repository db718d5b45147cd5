//! Archives locked and opened, with what can go wrong in between.
