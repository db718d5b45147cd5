//! Whether an archive is that of what a member has on its disk, found out while its etcd does not run yet.

use super::directory::{self, Depth};
use super::place::Place;
use super::seen::{Damage, Directory, Volume};
use super::volume;
use crate::follow::resume::{AtRest, ForeignCluster, Resume, go_on};
use crate::follow::session::SessionError;
use crate::home::{Home, blocking};

/// What a member has left on its disk.
struct Left {
    data: AtRest,
    /// What etcd calls its cluster, if that shows.
    cluster: Option<u64>,
}

/// Finds out how the archive at `home` goes on with what is in the data directory of `place`. `replaces` says that it takes the
/// place of what the archive is of. Nothing if nothing is there, or it cannot be read: then it is the start that tells.
pub async fn recognise_left(
    place: &Place,
    home: &Home,
    foreign: ForeignCluster,
) -> Result<Option<Resume>, SessionError> {
    let tip = home.with(|archive, home| archive.tip(&home.scratch)).await?;
    let Some(tip) = tip else { return Ok(Some(Resume::NewLineage { parent: None, why: "the first".into() })) };
    let place = place.clone();
    let Some(Left { data, cluster }) = blocking(move || left_in(&place)).await else { return Ok(None) };
    Ok(Some(go_on(&data, cluster, home, tip, foreign).await?))
}

fn left_in(place: &Place) -> Option<Left> {
    match volume::look(place) {
        // Whose volume it is counts before what is on it.
        Volume::Theirs { .. } | Volume::Unknown { .. } => return None,
        Volume::Unmarked | Volume::Ours(_) => {}
    }
    let cluster = match directory::look(place, Depth::Quick) {
        Directory::Sound(member) => Some(member.cluster.0),
        Directory::Damaged(Damage { salvage: Some(_), .. }) => None,
        _ => return None,
    };
    let data = AtRest::of(directory::database(place).ok()?).ok()?;
    Some(Left { data, cluster })
}
