//! Days and months in a text, matched in every notation: dates, names of months, and words such as
//! "yesterday", relative to the time of the event or of the query. English, and UTC. It must not
//! read a clock.

use std::ops::Range;

use jiff::{
    ToSpan as _,
    civil::{Date, DateTime, Weekday},
    tz::TimeZone,
};

use super::terms::visit_all_parts;
use crate::event::Timestamp;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const NUMBERS: [&str; 11] =
    ["a", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
/// Words that denote a day, or a step of the unit that the next word names: the word, the steps
/// from now, and the number of words read.
const STEPS: [(&str, i64, usize); 9] = [
    ("today", 0, 1),
    ("tonight", 0, 1),
    ("yesterday", -1, 1),
    ("tomorrow", 1, 1),
    ("this", 0, 2),
    ("next", 1, 2),
    ("last", -1, 2),
    ("past", -1, 2),
    ("previous", -1, 2),
];
const ORDINALS: [&str; 4] = ["st", "nd", "rd", "th"];
/// Words before "May" and "March" that mark them as months.
const BEFORE_MONTH: [&str; 13] = [
    "in", "of", "on", "since", "until", "by", "from", "during", "early", "late", "last", "next",
    "this",
];
/// Range of four-digit numbers that are read as years.
const YEARS: std::ops::RangeInclusive<i16> = 1_900..=2_100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DaySpan {
    Day(Date),
    /// First and last day.
    Days(Date, Date),
    Month(i16, i8),
    Year(i16),
    /// A month of any year, and a day of it.
    OfYear(i8, Option<i8>),
}

/// A date found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundDate {
    pub(super) bytes: Range<usize>,
    pub(super) span: DaySpan,
    /// True if its words have no other meaning than the date.
    pub(super) is_whole: bool,
}

impl DaySpan {
    /// Returns the terms that a query searches for, by level, the narrowest level first; a passage
    /// needs one term of a level.
    pub(super) fn query_terms(self) -> Vec<Vec<String>> {
        match self {
            Self::Day(day) => vec![vec![day_term(day)], vec![month_term(day.year(), day.month())]],
            Self::Days(from, to) => vec![days(from, to).map(day_term).collect()],
            Self::Month(year, month) => vec![vec![month_term(year, month)]],
            Self::Year(year) => vec![vec![format!("date:{year:04}")]],
            Self::OfYear(month, None) => vec![vec![format!("date:--{month:02}")]],
            Self::OfYear(month, Some(day)) => {
                vec![
                    vec![format!("date:--{month:02}-{day:02}")],
                    vec![format!("date:--{month:02}")],
                ]
            }
        }
    }

    /// Calls `visit` with the index terms of the date in a text written at about `near`.
    pub(super) fn visit_terms(self, near: Date, visit: &mut impl FnMut(&str)) {
        match self {
            Self::Day(day) => {
                visit(&day_term(day));
                visit(&format!("date:--{:02}-{:02}", day.month(), day.day()));
                Self::Month(day.year(), day.month()).visit_terms(near, visit);
            }
            Self::Days(from, to) => {
                days(from, to).for_each(|day| Self::Day(day).visit_terms(near, visit))
            }
            Self::Month(year, month) => {
                visit(&month_term(year, month));
                visit(&format!("date:--{month:02}"));
                visit(&format!("date:{year:04}"));
            }
            Self::Year(year) => visit(&format!("date:{year:04}")),
            Self::OfYear(month, day) => {
                let year = match i16::from(month) - i16::from(near.month()) {
                    7.. => near.year() - 1,
                    -5..=6 => near.year(),
                    _ => near.year() + 1,
                };
                let whole = day.and_then(|day| Date::new(year, month, day).ok());
                whole.map_or(Self::Month(year, month), Self::Day).visit_terms(near, visit);
            }
        }
    }

    /// Returns its first day; without a year the latest one that is not after `now`.
    fn first(self, now: Date) -> Option<Date> {
        match self {
            Self::Day(day) | Self::Days(day, _) => Some(day),
            Self::Month(year, month) => Date::new(year, month, 1).ok(),
            Self::Year(year) => Date::new(year, 1, 1).ok(),
            Self::OfYear(month, day) => {
                let of = |year| Date::new(year, month, day.unwrap_or(1)).ok();
                of(now.year()).filter(|first| *first <= now).or_else(|| of(now.year() - 1))
            }
        }
    }

    fn last(self, now: Date) -> Option<Date> {
        match self {
            Self::Day(day) | Self::Days(_, day) => Some(day),
            Self::OfYear(_, Some(_)) => self.first(now),
            Self::Month(..) | Self::OfYear(_, None) => Some(self.first(now)?.last_of_month()),
            Self::Year(_) => Some(self.first(now)?.last_of_year()),
        }
    }
}

fn day_term(day: Date) -> String {
    format!("date:{:04}-{:02}-{:02}", day.year(), day.month(), day.day())
}

fn month_term(year: i16, month: i8) -> String {
    format!("date:{year:04}-{month:02}")
}

fn days(from: Date, to: Date) -> impl Iterator<Item = Date> {
    from.series(1.day()).take_while(move |day| *day <= to).take(31)
}

/// Returns the UTC day of an instant; `None` if it is out of range.
pub(super) fn utc_day(at: Timestamp) -> Option<Date> {
    day_in_zone(at, &TimeZone::UTC)
}

fn day_in_zone(at: Timestamp, zone: &TimeZone) -> Option<Date> {
    let instant = jiff::Timestamp::from_microsecond(at.0).ok()?;
    Some(instant.to_zoned(zone.clone()).date())
}

/// Returns the term of the year that a word of four digits denotes.
pub(super) fn year_term(word: &str) -> Option<String> {
    parse_year(word).map(|year| format!("date:{year:04}"))
}

/// Parses a time, a day, a month, a year, or a relative day in a time zone; returns its start. An
/// RFC 3339 timestamp is returned as it is.
#[must_use]
pub fn parse_start_time(value: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let today = day_in_zone(now, zone)?;
    let of = |time: DateTime| {
        let instant = time.to_zoned(zone.clone()).ok()?.timestamp();
        Some(Timestamp(instant.as_microsecond()))
    };
    if let Some(instant) = Timestamp::parse(value) {
        return Some(instant);
    }
    // A time with an offset is no local one, whose parser would leave the offset out.
    let is_local = value.get(10..).is_none_or(|rest| !rest.contains(['+', '-', '[']));
    if let Some(time) = value.parse::<DateTime>().ok().filter(|_| is_local) {
        return of(time);
    }
    if let Some(year) = parse_year(value) {
        let first = DaySpan::Year(year).first(today)?;
        return of(first.to_datetime(jiff::civil::Time::midnight()));
    }
    let spaced = if value.contains(|c: char| c.is_ascii_digit()) {
        value.to_owned()
    } else {
        value.replace(['-', '_'], " ")
    };
    let found = find_relative_to(&spaced, today).into_iter().next()?;
    let is_all = found.bytes == (0..spaced.len());
    let first = found.span.first(today).filter(|_| is_all)?;
    of(first.to_datetime(jiff::civil::Time::midnight()))
}

/// Parses a range: a day in a zone, from its start to the start of the next, or `FROM/TO`.
pub(super) fn parse_range(
    value: &str,
    now: Timestamp,
    zone: &TimeZone,
) -> Option<(Timestamp, Timestamp)> {
    if let Some((from, to)) = value.split_once('/') {
        let (from, to) = (parse_start_time(from, now, zone)?, parse_start_time(to, now, zone)?);
        return (from < to).then_some((from, to));
    }
    let first = day_in_zone(parse_start_time(value, now, zone)?, zone)?;
    span_between(first, first, zone)
}

/// Returns the time ranges that words such as "yesterday" in a text denote in a zone.
pub(super) fn find_relative_times(
    text: &str,
    now: Timestamp,
    zone: &TimeZone,
) -> Vec<(Timestamp, Timestamp)> {
    let Some(today) = day_in_zone(now, zone) else { return Vec::new() };
    let found = find_relative_to(text, today).into_iter().filter(|date| !date.is_whole);
    let of = |date: FoundDate| span_between(date.span.first(today)?, date.span.last(today)?, zone);
    found.filter_map(of).collect()
}

/// Returns the start of the first day and the end of the last, exclusive, in a zone.
fn span_between(first: Date, last: Date, zone: &TimeZone) -> Option<(Timestamp, Timestamp)> {
    let begin = |day: Date| {
        let midnight = day.to_datetime(jiff::civil::Time::midnight()).to_zoned(zone.clone());
        Some(Timestamp(midnight.ok()?.timestamp().as_microsecond()))
    };
    Some((begin(first)?, begin(last.tomorrow().ok()?)?))
}

/// Finds the dates in a text, in order; words such as "yesterday" are relative to `at`.
pub(super) fn find(text: &str, at: Timestamp) -> Vec<FoundDate> {
    utc_day(at).map(|day| find_relative_to(text, day)).unwrap_or_default()
}

fn find_relative_to(text: &str, now: Date) -> Vec<FoundDate> {
    let mut ranges = Vec::new();
    visit_all_parts(text, |term| {
        if !term.whole {
            ranges.push(term.range.clone());
        }
    });
    let words = TextWords { text, ranges };
    let (mut found, mut index) = (Vec::new(), 0);
    while index < words.ranges.len() {
        let read = words
            .parse_numeric(index)
            .or_else(|| words.parse_month_date(index, now))
            .or_else(|| words.parse_relative(index, now));
        let Some((range, span, is_whole)) = read else {
            index += 1;
            continue;
        };
        let end = words.ranges.get(range.end - 1).map_or(0, |range| range.end);
        let start = words.ranges.get(range.start).map_or(end, |range| range.start);
        found.push(FoundDate { bytes: start..end.max(start), span, is_whole });
        index = range.end.max(index + 1);
    }
    found
}

/// The byte ranges of the words of a text.
struct TextWords<'t> {
    text: &'t str,
    ranges: Vec<Range<usize>>,
}

/// Range of word indexes, the date, and true if its words have no other meaning.
type ParsedDate = (Range<usize>, DaySpan, bool);

impl TextWords<'_> {
    /// Returns the word at that index; empty if it does not exist.
    fn word(&self, index: usize) -> &str {
        let range = self.ranges.get(index).cloned();
        range.and_then(|range| self.text.get(range)).unwrap_or_default()
    }

    fn word_before(&self, index: usize, back: usize) -> &str {
        index.checked_sub(back).map_or("", |index| self.word(index))
    }

    /// Returns the text between a word and the next.
    fn text_after(&self, index: usize) -> &str {
        let from = self.ranges.get(index).map(|range| range.end);
        let to = self.ranges.get(index + 1).map(|range| range.start);
        from.zip(to).and_then(|(from, to)| self.text.get(from..to)).unwrap_or_default()
    }

    /// Parses `2024-05-15`, `2024-05`.
    fn parse_numeric(&self, index: usize) -> Option<ParsedDate> {
        let year = parse_year(self.word(index))?;
        let mark = self.text_after(index);
        let two = |index: usize, most: i8| {
            parse_number(self.word(index)).filter(|number| (1..=most).contains(number))
        };
        if !matches!(mark, "-" | "/") || self.word(index + 1).len() != 2 {
            return None;
        }
        let month = two(index + 1, 12)?;
        if self.text_after(index + 1) != mark {
            return (mark == "-").then_some((index..index + 2, DaySpan::Month(year, month), true));
        }
        let day = Date::new(year, month, two(index + 2, 31)?).ok()?;
        Some((index..index + 3, DaySpan::Day(day), true))
    }

    /// Parses `May 2023`, `8 May 2023`, `May 8th, 2023`, `in May`, `last May`.
    fn parse_month_date(&self, index: usize, now: Date) -> Option<ParsedDate> {
        let name = self.word(index);
        let (month, is_sure) = parse_month(name)?;
        let (mut from, mut to) = (index, index + 1);
        let day_at = |index: Option<usize>| {
            let index = index?;
            let word = self.word(index);
            let day = parse_number(word).filter(|day| word.len() <= 2 && (1..=31).contains(day))?;
            Some((index, day))
        };
        let mut back = index.checked_sub(1);
        for skipped in [&["of"][..], &ORDINALS] {
            if back.is_some_and(|at| is_one_of(self.word(at), skipped)) {
                back = back.and_then(|at| at.checked_sub(1));
            }
        }
        let mut day = None;
        if let Some((at, number)) = day_at(back) {
            (from, day) = (at, Some(number));
        } else if let Some((_, number)) = day_at(Some(to)) {
            (to, day) = (to + 1, Some(number));
            to += usize::from(is_one_of(self.word(to), &ORDINALS));
        }
        let year = parse_year(self.word(to));
        to += usize::from(year.is_some());
        let has_number = day.or(year.map(|_| 0)).is_some();
        let before = self.word_before(from, 1);
        let is_name = name.starts_with(|c: char| c.is_ascii_uppercase());
        let is_month = match (is_sure, name.len()) {
            (true, _) => true,
            (false, ..=3) if !name.eq_ignore_ascii_case("may") => has_number,
            _ => is_name && (has_number || is_one_of(before, &BEFORE_MONTH)),
        };
        let span = match (year, day) {
            (Some(year), Some(day)) => DaySpan::Day(Date::new(year, month, day).ok()?),
            (Some(year), None) => DaySpan::Month(year, month),
            (None, day) => {
                let year = now.year() - i16::from(month >= now.month());
                match before.to_ascii_lowercase().as_str() {
                    "last" if day.is_none() => DaySpan::Month(year, month),
                    "next" if day.is_none() => DaySpan::Month(year + 1, month),
                    _ => DaySpan::OfYear(month, day),
                }
            }
        };
        is_month.then_some((from..to, span, true))
    }

    /// Parses `yesterday`, `last week`, `three days ago`.
    fn parse_relative(&self, index: usize, now: Date) -> Option<ParsedDate> {
        let word = self.word(index);
        let unit = self.word(index + 1);
        let (words, span) = match STEPS.iter().find(|(known, ..)| is_one_of(word, &[known])) {
            Some((_, step, 1)) => (1, relative_span("day", *step, now)?),
            Some(_) if is_one_of(unit, &["day"]) => return None,
            Some((_, step, words)) => (*words, relative_span(unit, *step, now)?),
            None if is_one_of(self.word(index + 2), &["ago"]) => {
                let named = NUMBERS.iter().position(|name| name.eq_ignore_ascii_case(word));
                let count = named.map(|at| at.max(1) as i64).or(parse_number(word).map(i64::from));
                let count = count.filter(|count| *count > 0)?;
                (3, relative_span(unit.trim_end_matches(['s', 'S']), -count, now)?)
            }
            None => return None,
        };
        Some((index..index + words, span, false))
    }
}

/// Returns the unit `step` units from `now`; for a weekday, the nearest one before or after `now`.
fn relative_span(unit: &str, step: i64, now: Date) -> Option<DaySpan> {
    if let Some(index) = WEEKDAYS.iter().position(|name| name.eq_ignore_ascii_case(unit)) {
        let weekday = Weekday::from_monday_zero_offset(i8::try_from(index).ok()?).ok()?;
        let nth = i32::try_from(step).ok().filter(|nth| *nth != 0).unwrap_or(1);
        return Some(DaySpan::Day(now.nth_weekday(nth, weekday).ok()?));
    }
    Some(match unit.to_ascii_lowercase().as_str() {
        "day" | "night" => DaySpan::Day(now.checked_add(step.days()).ok()?),
        "week" => week_of(now.checked_add(step.weeks()).ok()?)?,
        "weekend" => match week_of(now.checked_add(step.weeks()).ok()?)? {
            DaySpan::Days(_, sunday) => DaySpan::Days(sunday.yesterday().ok()?, sunday),
            other => other,
        },
        "month" => {
            let then = now.checked_add(step.months()).ok()?;
            DaySpan::Month(then.year(), then.month())
        }
        "year" => DaySpan::Year(now.checked_add(step.years()).ok()?.year()),
        _ => return None,
    })
}

/// Returns the week of a day, from Monday.
fn week_of(day: Date) -> Option<DaySpan> {
    let monday = day.checked_sub(i64::from(day.weekday().to_monday_zero_offset()).days()).ok()?;
    Some(DaySpan::Days(monday, monday.checked_add(6.days()).ok()?))
}

/// Parses the name of a month; returns its number, and true if the name has no other meaning.
fn parse_month(name: &str) -> Option<(i8, bool)> {
    if !(3..=9).contains(&name.len()) {
        return None;
    }
    let is = |month: &str| {
        name.eq_ignore_ascii_case(month)
            || month.get(..3).is_some_and(|short| name.eq_ignore_ascii_case(short))
            || month == "september" && name.eq_ignore_ascii_case("sept")
    };
    let index = MONTHS.iter().position(|month| is(month))?;
    Some((
        index as i8 + 1,
        name.len() > 4 && index != 2 || matches!(index, 5 | 6) && name.len() == 4,
    ))
}

fn is_one_of(word: &str, of: &[&str]) -> bool {
    of.iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn parse_number(word: &str) -> Option<i8> {
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| is_number)
}

fn parse_year(word: &str) -> Option<i16> {
    let is_year = word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|year| is_year && YEARS.contains(year))
}
