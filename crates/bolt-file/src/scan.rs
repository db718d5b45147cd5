//! All of a bucket, on all cores, in key order.
//!
//! The branches just above the leaves cut a bucket into [`Span`]s of about a hundred leaves each. Workers take the
//! spans in turn; what they make of them reaches the caller in order, through short queues, so that neither side
//! runs ahead of the other by more than a few spans.

use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::cursor::{MAX_DEPTH, child_index, inline_header};
use crate::error::{Corrupt, Error, Fault};
use crate::file::{BoltFile, Bucket, Root};
use crate::page::{Leaf, PageId};
use crate::reader::{Node, PageReader};

/// Neighbouring leaves of a bucket: the subtree below one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    root: Root,
}

/// The part of a bucket to look at, by key: both ends belong to it, and no end means all the way.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyRange<'a> {
    /// The first key.
    pub from: Option<&'a [u8]>,
    /// The last key.
    pub to: Option<&'a [u8]>,
}

impl Bucket {
    /// The spans that hold what the bucket has in `range`, in key order, with some entries around it. Reads no leaf
    /// but the first.
    pub fn spans(&self, range: KeyRange<'_>) -> Result<Vec<Span>, Error> {
        let Root::Page(root) = self.root else {
            return Ok(vec![Span { root: self.root.clone() }]);
        };
        let mut reader = self.file.pages();
        let height = height(root, &mut reader)?;
        let pages = self.file.layout().pages;
        reader.allow(pages);
        let mut level = vec![root];
        for _ in 1..height.saturating_sub(1) {
            let mut below = Vec::new();
            for &page in &level {
                match reader.node(page)? {
                    Node::Branch(branch) => {
                        let first = range.from.map_or(Ok(0), |from| child_index(&branch, from))?;
                        let last = range.to.map_or(Ok(branch.len() - 1), |to| child_index(&branch, to))?;
                        for index in first..=last {
                            below.extend(branch.get(index)?.map(|(_, child)| child));
                        }
                    }
                    // A leaf higher up than others: bbolt writes no such tree, but it can be read.
                    Node::Leaf(_) => below.push(page),
                }
            }
            if below.len() as u64 > pages {
                return Err(Fault::Tangled.on(root).into());
            }
            level = below;
        }
        Ok(level.into_iter().map(|page| Span { root: Root::Page(page) }).collect())
    }
}

/// The levels of the tree at `root`, leaves included, along its first children.
fn height(root: PageId, reader: &mut PageReader) -> Result<usize, Error> {
    let mut page = root;
    for height in 1..=MAX_DEPTH {
        match reader.node(page)? {
            Node::Leaf(_) => return Ok(height),
            Node::Branch(branch) => page = branch.get(0)?.map_or(page, |(_, child)| child),
        }
    }
    Err(Fault::TooDeep { limit: MAX_DEPTH }.on(root).into())
}

/// Which way to go through a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// In key order.
    Forwards,
    /// Against it. Leaves come last first; what is on a leaf is up to the visitor.
    Backwards,
}

impl Direction {
    /// The places of `len` things in the order in which this comes by them.
    pub fn places(self, len: usize) -> impl Iterator<Item = usize> {
        (0..len).map(move |index| match self {
            Self::Forwards => index,
            Self::Backwards => len - 1 - index,
        })
    }
}

/// Reads the leaves of spans, neighbours in the file with one system call.
pub struct SpanReader {
    pages: PageReader,
    page_size: u64,
}

/// What is read ahead at once, at the most. Larger windows fall out of the processor's cache before they are used.
const WINDOW_BYTES: u64 = 512 << 10;
/// Leaves this many pages apart are read as neighbours: what lies between is mostly their overflow.
const NEIGHBOUR_PAGES: u64 = 16;

impl SpanReader {
    /// A reader of the spans of `file`, each once.
    pub fn new(file: &BoltFile) -> Self {
        let page_size = u64::from(file.layout().page_size);
        let mut pages = file.pages();
        pages.allow(file.layout().pages);
        Self { pages, page_size }
    }

    /// Shows `visit` every leaf of `span`, until it breaks.
    pub fn leaves<E: From<Error>>(
        &mut self,
        span: &Span,
        direction: Direction,
        visit: &mut impl FnMut(Leaf<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        self.leaves_around(span, direction, &mut |leaf| visit(leaf.map_err(Error::from)?))
    }

    /// Shows `visit` every leaf of `span`, until it breaks, and what is wrong with pages that contradict the format. It may go on
    /// behind them.
    pub fn leaves_around<E: From<Error>>(
        &mut self,
        span: &Span,
        direction: Direction,
        visit: &mut impl FnMut(Result<Leaf<'_>, Corrupt>) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        match &span.root {
            Root::Page(page) => self.below(*page, direction, MAX_DEPTH, visit),
            Root::Inline(bytes, page) => {
                let header = inline_header(bytes, *page)?;
                visit(Leaf::parse(*page, header.count, bytes))
            }
        }
    }

    fn below<E: From<Error>>(
        &mut self,
        page: PageId,
        direction: Direction,
        depth: usize,
        visit: &mut impl FnMut(Result<Leaf<'_>, Corrupt>) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        let children = match self.pages.node(page) {
            Ok(Node::Leaf(leaf)) => return visit(Ok(leaf)),
            Ok(Node::Branch(branch)) => {
                let child = |index| Ok(branch.get(index)?.map_or(page, |(_, child)| child));
                (0..branch.len()).map(child).collect::<Result<Vec<_>, Corrupt>>()
            }
            // Whoever goes on behind that never comes to an end.
            Err(Error::Corrupt(Corrupt { fault: Fault::Tangled, page })) => {
                return Err(Error::from(Fault::Tangled.on(page)).into());
            }
            Err(Error::Corrupt(corrupt)) => Err(corrupt),
            Err(error) => return Err(error.into()),
        };
        let children = match children {
            Ok(children) => children,
            Err(corrupt) => return visit(Err(corrupt)),
        };
        if depth == 0 {
            return Err(Error::from(Fault::TooDeep { limit: MAX_DEPTH }.on(page)).into());
        }
        let mut groups = neighbours(&children, self.page_size);
        if direction == Direction::Backwards {
            groups.reverse();
        }
        for (group, pages) in groups {
            if let [first, _, ..] = group {
                self.pages.fetch_ahead(*first, pages)?;
            }
            for index in 0..group.len() {
                let index = if direction == Direction::Backwards { group.len() - 1 - index } else { index };
                let Some(&child) = group.get(index) else { continue };
                if self.below(child, direction, depth - 1, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Cuts `children` into runs that lie close together in the file, each with the pages it spreads over.
pub(crate) fn neighbours(children: &[PageId], page_size: u64) -> Vec<(&[PageId], u64)> {
    let window = WINDOW_BYTES / page_size;
    let mut first = children.first().map_or(0, |page| page.0);
    let close = |pair: &[PageId; 2]| {
        let [last, next] = pair.map(|page| page.0);
        let joins = next > last && next - last <= NEIGHBOUR_PAGES && next.saturating_sub(first) < window;
        if !joins {
            first = next;
        }
        joins
    };
    let mut ends: Vec<bool> = children.array_windows().map(close).map(|joins| !joins).collect();
    ends.push(true);
    let mut groups = Vec::new();
    let mut start = 0;
    for (index, _) in ends.into_iter().enumerate().filter(|&(_, ends)| ends) {
        let (group, after) = children.split_at((index + 1).min(children.len()));
        let group = group.get(start..).unwrap_or_default();
        start = index + 1;
        groups.push((group, spread(group, after.first())));
    }
    groups
}

/// The pages from the first of `group` to the end of its last, which may overflow up to `next`.
fn spread(group: &[PageId], next: Option<&PageId>) -> u64 {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return 0 };
    let overflow = next.map_or(1, |next| next.0.saturating_sub(last.0)).clamp(1, NEIGHBOUR_PAGES);
    last.0 - first.0 + overflow
}

/// As many threads as there are cores. It is asked for once: what tells it are four files of the kernel.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

/// Results that a worker may have ready before the caller takes them.
const QUEUE: usize = 2;

/// Lets `threads` workers go through `tasks` and hands what they emit to `take`, in the order of the tasks.
///
/// Each worker begins with `start`; `work` may emit any number of results for a task, and stops when emitting
/// breaks. When `take` breaks, or anything fails, all stop.
pub fn in_order<T: Sync, W, R: Send, E: Send>(
    tasks: &[T],
    threads: usize,
    start: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, &T, &mut dyn FnMut(R) -> ControlFlow<()>) -> Result<(), E> + Sync,
    mut take: impl FnMut(R) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    let threads = threads.clamp(1, tasks.len().max(1));
    thread::scope(|scope| {
        let (start, work) = (&start, &work);
        let queues: Vec<Receiver<Message<R, E>>> = (0..threads)
            .map(|worker| {
                let (sender, receiver) = sync_channel(QUEUE);
                let share = tasks.iter().skip(worker).step_by(threads);
                scope.spawn(move || work_through(share, start(), work, &sender));
                receiver
            })
            .collect();
        for queue in queues.iter().cycle().take(tasks.len()) {
            loop {
                match queue.recv() {
                    Ok(Message::Result(result)) => {
                        if take(result)?.is_break() {
                            return Ok(());
                        }
                    }
                    Ok(Message::Done) => break,
                    Ok(Message::Failed(error)) => return Err(error),
                    // The worker panicked: leaving the scope passes it on.
                    Err(_) => return Ok(()),
                }
            }
        }
        Ok(())
    })
}

/// The same on the thread of the caller, one task after the other: nothing is ready before it is taken.
pub fn one_by_one<T, W, R, E>(
    tasks: &[T],
    mut state: W,
    work: impl Fn(&mut W, &T, &mut dyn FnMut(R) -> ControlFlow<()>) -> Result<(), E>,
    mut take: impl FnMut(R) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    for task in tasks {
        let mut taken = Ok(ControlFlow::Continue(()));
        let mut emit = |result| {
            // Who has broken off is given nothing more, whatever is still emitted.
            if matches!(taken, Ok(ControlFlow::Continue(()))) {
                taken = take(result);
            }
            if matches!(taken, Ok(ControlFlow::Continue(()))) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let worked = work(&mut state, task, &mut emit);
        if taken?.is_break() {
            return Ok(());
        }
        worked?;
    }
    Ok(())
}

enum Message<R, E> {
    Result(R),
    Done,
    Failed(E),
}

/// Does a worker's share of the tasks, until it fails or nobody listens.
fn work_through<'a, T: 'a, W, R, E>(
    share: impl Iterator<Item = &'a T>,
    mut state: W,
    work: &impl Fn(&mut W, &T, &mut dyn FnMut(R) -> ControlFlow<()>) -> Result<(), E>,
    sender: &SyncSender<Message<R, E>>,
) {
    for task in share {
        let mut emit = |result| match sender.send(Message::Result(result)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let last = match work(&mut state, task, &mut emit) {
            Ok(()) => Message::Done,
            Err(error) => Message::Failed(error),
        };
        let failed = matches!(last, Message::Failed(_));
        if sender.send(last).is_err() || failed {
            return;
        }
    }
}
