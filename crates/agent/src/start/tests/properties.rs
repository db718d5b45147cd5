//! What holds for every combination there is.

use etcd_data::Revision;

use super::words::{ARCHIVES, DIRECTORIES, OTHERS, POLICIES, VOLUMES, seen};
use crate::start::decide;
use crate::start::decision::{Decision, From};
use crate::start::policy::{ClusterAge, Outdated, Policy};
use crate::start::seen::{Ahead, Archived, Directory, Held, Others, Seen, Volume, Writer};

/// Shows `check` every combination, and what is decided. Gives how many there were.
fn every_combination(check: impl Fn(&Seen, &Policy, &Decision)) -> usize {
    let mut count = 0;
    for directory in DIRECTORIES {
        for volume in VOLUMES {
            for others in OTHERS {
                for archive in ARCHIVES {
                    for policy in POLICIES {
                        for is_first in [true, false] {
                            let (seen, policy) = seen(directory, volume, others, archive, policy, is_first);
                            check(&seen, &policy, &decide(&seen, &policy));
                            count += 1;
                        }
                    }
                }
            }
        }
    }
    count
}

fn is_lost(seen: &Seen, policy: &Policy) -> bool {
    policy.quorum_lost.after().zip(seen.without_quorum).is_some_and(|(after, missed)| missed >= after)
}

#[test]
fn a_sound_directory_is_touched_only_where_somebody_permitted_it() {
    let count = every_combination(|seen, policy, decision| {
        if !matches!(seen.directory, Directory::Sound(_)) {
            return;
        }
        match decision {
            Decision::Keep { .. } | Decision::Wait(_) | Decision::Stop(_) => {}
            Decision::Begin => panic!("{seen:?} is begun anew"),
            // What is in it is in the cluster that it joins, or was given up by whoever said so.
            Decision::Join(_) => {
                assert!(policy.outdated == Outdated::SetAside && matches!(seen.others, Others::Quorum(_)), "{seen:?}");
            }
            Decision::Restore(restore) => {
                assert!(is_lost(seen, policy), "{seen:?}");
                assert!(restore.revision >= seen.directory.revision().unwrap(), "{seen:?} goes back");
            }
        }
    });
    println!("{count} combinations");
}

#[test]
fn a_directory_that_is_there_is_never_begun_anew_and_what_is_lost_is_never_taken_for_new() {
    every_combination(|seen, policy, decision| {
        if *decision != Decision::Begin {
            return;
        }
        assert_eq!(seen.directory, Directory::Empty);
        assert!(matches!(seen.volume, Volume::Unmarked | Volume::Ours(Held::Nothing)), "{seen:?}");
        assert!(matches!(seen.archive, Archived::None | Archived::Empty), "{seen:?}");
        assert_eq!(policy.cluster, ClusterAge::New);
        assert!(!matches!(seen.others, Others::Quorum(_) | Others::Refused { .. }), "{seen:?}");
    });
}

#[test]
fn nothing_is_restored_that_is_not_furthest_ahead_nor_while_the_archive_is_away_or_anothers() {
    every_combination(|seen, _, decision| {
        let Decision::Restore(restore) = decision else { return };
        let archived = match &seen.archive {
            Archived::Newest(newest) => Some(newest.revision),
            Archived::None | Archived::Empty => None,
            other => panic!("restored while the archive is {other:?}"),
        };
        assert_eq!(Some(restore.revision), seen.directory.revision().max(archived), "{seen:?}");
        assert!(restore.highest >= restore.revision && restore.highest >= seen.highest(), "{seen:?}");
        assert_eq!(seen.writer, Writer::Nobody, "{seen:?}");
        if let Others::NoQuorum { ahead } = &seen.others {
            assert!(ahead.revision <= restore.revision, "{seen:?} is behind another member");
        }
        assert!(!matches!(seen.others, Others::Quorum(_) | Others::Refused { .. }), "{seen:?}");
        if restore.from == From::Disk {
            assert!(seen.directory.revision().is_some());
        }
    });
}

#[test]
fn without_permission_no_cluster_of_several_is_built_anew() {
    every_combination(|seen, policy, decision| {
        if matches!(decision, Decision::Restore(_)) && !matches!(seen.others, Others::Alone) {
            assert!(is_lost(seen, policy), "{seen:?}");
        }
    });
}

/// Members that see the same of each other, with these revisions or no data: who of them builds the cluster anew.
fn who_builds(revisions: &[Option<i64>], archive: &str) -> Vec<usize> {
    let builds = |number: &usize| {
        let directory = if revisions[*number].is_some() { "sound, at 100" } else { "empty" };
        let (mut seen, policy) =
            seen(directory, "had data", "silent", archive, "rebuild, quorum long lost", *number == 0);
        if let (Directory::Sound(own), Some(revision)) = (&mut seen.directory, revisions[*number]) {
            own.revision = Revision(revision);
        }
        let others = revisions.iter().enumerate().filter(|(other, _)| other != number);
        let answering = others.filter_map(|(other, revision)| Some((std::cmp::Reverse((*revision)?), other)));
        if let Some((std::cmp::Reverse(revision), other)) = answering.min() {
            let ahead = Ahead { name: format!("m{other}"), revision: Revision(revision), is_before: other < *number };
            seen.others = Others::NoQuorum { ahead };
        }
        matches!(decide(&seen, &policy), Decision::Restore(_))
    };
    (0..revisions.len()).filter(builds).collect()
}

#[test]
fn of_all_who_look_at_the_same_one_builds_the_cluster_anew_and_it_is_the_furthest() {
    const STATES: [Option<i64>; 4] = [None, Some(90), Some(100), Some(140)];
    let mut count = 0;
    for archive in ["none", "empty", "at 80", "at 100", "at 130"] {
        for first in STATES {
            for second in STATES {
                for third in STATES {
                    let revisions = [first, second, third];
                    let builders = who_builds(&revisions, archive);
                    let furthest = revisions.iter().max().unwrap();
                    let expected = match furthest {
                        Some(_) => vec![revisions.iter().position(|revision| revision == furthest).unwrap()],
                        None if archive.starts_with("at ") => vec![0],
                        None => vec![],
                    };
                    assert_eq!(builders, expected, "{revisions:?}, {archive}");
                    count += 1;
                }
            }
        }
    }
    println!("{count} worlds");
}

#[test]
fn the_volume_of_another_and_what_cannot_be_read_are_left_alone() {
    every_combination(|seen, _, decision| {
        let is_closed = matches!(seen.volume, Volume::Theirs { .. } | Volume::Unknown { .. })
            || matches!(seen.directory, Directory::InUse | Directory::Unreadable { .. } | Directory::Foreign { .. });
        if is_closed {
            assert!(matches!(decision, Decision::Wait(_) | Decision::Stop(_)), "{seen:?}: {decision}");
        }
    });
}

#[test]
fn a_member_that_had_data_never_comes_back_as_the_one_that_may_have_voted() {
    use crate::start::decision::Join;

    every_combination(|seen, _, decision| {
        let had_data =
            matches!(seen.volume, Volume::Ours(Held::Data)) || matches!(seen.directory, Directory::Damaged(_));
        if had_data && seen.directory.revision().is_none() {
            assert!(!matches!(decision, Decision::Join(Join::AsAdded(_))), "{seen:?}");
        }
    });
}
