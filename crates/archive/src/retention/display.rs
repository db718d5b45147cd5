//! A plan as people read it.

use std::fmt;

use super::{Block, Cause, Decision, Reason, RetentionPlan, Rule, Verdict};

impl fmt::Display for RetentionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Decision { entry, verdict } in &self.decisions {
            writeln!(f, "{verdict}: {}", entry.key)?;
        }
        for key in &self.asides {
            writeln!(f, "delete, what it goes with goes, or it is what a run left that died: {key}")?;
        }
        let gone = self.decisions.iter().filter(|decision| decision.verdict.is_delete()).count();
        writeln!(f, "{gone} of {} objects go, {} bytes", self.decisions.len(), self.freed_bytes())?;
        match self.strangers {
            0 => Ok(()),
            1 => writeln!(f, "1 object is not of this archive and stays"),
            strangers => writeln!(f, "{strangers} objects are not of this archive and stay"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep(reasons) => {
                let reasons: Vec<String> = reasons.iter().map(Reason::to_string).collect();
                write!(f, "keep, {}", reasons.join(", "))
            }
            Self::Delete(cause) => write!(f, "delete, {cause}"),
            Self::Blocked(cause, block) => write!(f, "keep for now, {block}; otherwise it would go: {cause}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewestProven => f.write_str("the newest proven point needs it"),
            Self::AfterNewestProven => f.write_str("nothing proven is newer"),
            Self::Minimum => f.write_str("the newest are always kept"),
            Self::Rule(rule) => rule.fmt(f),
            Self::Chain => f.write_str("it carries on a full that is kept"),
            Self::NotSubject => f.write_str("the policy is not about it"),
            Self::NoRule => f.write_str("the policy keeps every point"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(count) => write!(f, "one of the newest {count}"),
            Self::SizeBytes(limit) => write!(f, "within {limit} bytes"),
            Self::Window(span) => write!(f, "for every moment of the last {span:#}"),
            Self::Generations(_) => f.write_str("the newest of its hour, day, week, month or year"),
            Self::Exponential => f.write_str("the newest of its hour, day or week"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("no rule keeps it"),
            Self::Merged { into } => write!(f, "all of it is in {into}"),
            Self::Failed => f.write_str("it cannot be used"),
        }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingProven => f.write_str("as nothing in the archive is proven"),
            Self::RetainedUntil(until) => write!(f, "as the store keeps it until {until}"),
            Self::LegalHold => f.write_str("as somebody holds it"),
            Self::Unsure => f.write_str("as nothing shows that it is of no use for good"),
            Self::Grace { until } => write!(f, "as it is too young until {until}"),
        }
    }
}
