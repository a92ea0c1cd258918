//! Reads a source and the files of its subagents as one: lines of different files in the order of
//! their times, those of one file in its order. It must not convert a line.

use std::{
    cmp::Reverse,
    io::{self, BufRead},
};

use super::lines::{LineContent, LineItem, ReadLine, SourceLines};
use crate::event::Timestamp;

/// Transcript of a subagent of Claude Code in a file of its own.
pub struct SubagentFile<'a> {
    /// Id of the subagent.
    pub id: String,
    /// Opens the file from its beginning. It is open only while lines of that time are read.
    pub open: Box<dyn Fn() -> io::Result<Box<dyn BufRead + Send + 'a>> + Send + 'a>,
}

/// A file with its next record.
struct FileLines<'a> {
    lines: SourceLines<'a>,
    next: Option<ReadLine>,
    /// Latest time of its lines, the next one included.
    at: Option<Timestamp>,
}

/// The records of a source and of its subagents.
pub(super) struct InterleavedLines<'a> {
    source: FileLines<'a>,
    /// Files of subagents that have begun and not ended.
    begun: Vec<FileLines<'a>>,
    /// The others, each with its first time and its number; the next one is the last.
    later: Vec<(Option<Timestamp>, usize, SubagentFile<'a>)>,
}

impl<'a> InterleavedLines<'a> {
    pub(super) fn new(
        lines: SourceLines<'a>,
        subagents: Vec<SubagentFile<'a>>,
    ) -> io::Result<Self> {
        let mut later = Vec::new();
        for (number, file) in (1..).zip(subagents) {
            later.push((FileLines::open(&file, number)?.at, number, file));
        }
        later.sort_by_key(|(at, ..)| Reverse(*at));
        let source = FileLines { lines, next: None, at: None };
        Ok(Self { source, begun: Vec::new(), later })
    }

    pub(super) fn next_line(&mut self) -> io::Result<Option<ReadLine>> {
        self.source.fill()?;
        self.begun.iter_mut().try_for_each(FileLines::fill)?;
        self.begun.retain(|file| file.next.is_some());
        loop {
            let all = [&mut self.source].into_iter().chain(&mut self.begun);
            let first = all.filter(|file| file.next.is_some()).min_by_key(|file| file.at);
            let begins = first.as_ref().map(|file| file.at);
            let is_due =
                |(at, ..): &mut (Option<_>, _, _)| begins.is_none_or(|begins| *at < begins);
            match self.later.pop_if(is_due) {
                Some((_, number, file)) => self.begun.push(FileLines::open(&file, number)?),
                None => return Ok(first.and_then(|file| file.next.take())),
            }
        }
    }

    /// Returns the lines of the source itself.
    pub(super) fn source(&self) -> &SourceLines<'a> {
        &self.source.lines
    }
}

impl<'a> FileLines<'a> {
    fn open(file: &SubagentFile<'a>, number: usize) -> io::Result<Self> {
        let lines = SourceLines::for_subagent((file.open)()?, number);
        let mut file = Self { lines, next: None, at: None };
        file.fill()?;
        Ok(file)
    }

    /// Reads the next record if there is none.
    fn fill(&mut self) -> io::Result<()> {
        if self.next.is_none() {
            self.next = self.lines.next_line()?;
            if let Some(ReadLine {
                item: LineItem::Good(LineContent::Entry(_, line, ..)), ..
            }) = &self.next
            {
                self.at = self.at.max(line.time());
            }
        }
        Ok(())
    }
}
