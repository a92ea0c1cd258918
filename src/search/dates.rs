//! Days and months in a text, matched in every notation: dates, names of months, and words such as
//! "yesterday", relative to the time of the event or of the query. English, and UTC. It must not
//! read a clock.

use std::ops::Range;

use jiff::{
    ToSpan as _,
    civil::{Date, DateTime, Weekday},
    tz::TimeZone,
};

use super::terms::parts;
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
/// Words that denote a day, or the unit after them: steps from now, and number of words.
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

/// A span of days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    Day(Date),
    /// First and last day.
    Days(Date, Date),
    Month(i16, i8),
    Year(i16),
    /// A month of any year, and a day of it.
    OfYear(i8, Option<i8>),
}

/// A date in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) bytes: Range<usize>,
    pub(super) span: Span,
    /// True if its words have no other meaning than the date.
    pub(super) is_whole: bool,
}

impl Span {
    /// Returns the terms that a query looks for, the narrowest level first; one of each level
    /// suffices.
    pub(super) fn levels(self) -> Vec<Vec<String>> {
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
    pub(super) fn terms(self, near: Date, visit: &mut impl FnMut(&str)) {
        match self {
            Self::Day(day) => {
                visit(&day_term(day));
                visit(&format!("date:--{:02}-{:02}", day.month(), day.day()));
                Self::Month(day.year(), day.month()).terms(near, visit);
            }
            Self::Days(from, to) => {
                days(from, to).for_each(|day| Self::Day(day).terms(near, visit))
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
                whole.map_or(Self::Month(year, month), Self::Day).terms(near, visit);
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

    /// Returns its last day.
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

/// Returns the day of an instant.
pub(super) fn day_of(at: Timestamp) -> Option<Date> {
    day_in(at, &TimeZone::UTC)
}

fn day_in(at: Timestamp, zone: &TimeZone) -> Option<Date> {
    let instant = jiff::Timestamp::from_microsecond(at.0).ok()?;
    Some(instant.to_zoned(zone.clone()).date())
}

/// Returns the term of a year for a word of digits.
pub(super) fn year_of(word: &str) -> Option<String> {
    year(word).map(|year| format!("date:{year:04}"))
}

/// Returns the start of a time, a day, a month, a year, or a relative day in a time zone. It is
/// exact if it is an RFC 3339 timestamp.
#[must_use]
pub fn start(value: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let today = day_in(now, zone)?;
    let of = |time: DateTime| {
        let instant = time.to_zoned(zone.clone()).ok()?.timestamp();
        Some(Timestamp(instant.as_microsecond()))
    };
    if let Some(instant) = Timestamp::parse(value) {
        return Some(instant);
    }
    if let Ok(time) = value.parse::<DateTime>() {
        return of(time);
    }
    if let Some(year) = year(value) {
        let first = Span::Year(year).first(today)?;
        return of(first.to_datetime(jiff::civil::Time::midnight()));
    }
    let spaced = if value.contains(|c: char| c.is_ascii_digit()) {
        value.to_owned()
    } else {
        value.replace(['-', '_'], " ")
    };
    let found = find_on(&spaced, today).into_iter().next()?;
    let is_all = found.bytes == (0..spaced.len());
    let first = found.span.first(today).filter(|_| is_all)?;
    of(first.to_datetime(jiff::civil::Time::midnight()))
}

/// Returns the time from the start of a day in a zone to that of the next, or between two times:
/// `FROM/TO`.
pub(super) fn stretch(
    value: &str,
    now: Timestamp,
    zone: &TimeZone,
) -> Option<(Timestamp, Timestamp)> {
    if let Some((from, to)) = value.split_once('/') {
        return start(from, now, zone).zip(start(to, now, zone)).filter(|(from, to)| from < to);
    }
    let first = day_in(start(value, now, zone)?, zone)?;
    span_between(first, first, zone)
}

/// Returns the times of words such as "yesterday" in a text, in a zone.
pub(super) fn seen_from(
    text: &str,
    now: Timestamp,
    zone: &TimeZone,
) -> Vec<(Timestamp, Timestamp)> {
    let Some(today) = day_in(now, zone) else { return Vec::new() };
    let found = find_on(text, today).into_iter().filter(|date| !date.is_whole);
    let of = |date: Found| span_between(date.span.first(today)?, date.span.last(today)?, zone);
    found.filter_map(of).collect()
}

/// Returns the time from the start of a day in a zone to the end of another.
fn span_between(first: Date, last: Date, zone: &TimeZone) -> Option<(Timestamp, Timestamp)> {
    let begin = |day: Date| {
        let midnight = day.to_datetime(jiff::civil::Time::midnight()).to_zoned(zone.clone());
        Some(Timestamp(midnight.ok()?.timestamp().as_microsecond()))
    };
    Some((begin(first)?, begin(last.tomorrow().ok()?)?))
}

/// Finds the dates in a text, in order; words such as "yesterday" are relative to `at`.
pub(super) fn find(text: &str, at: Timestamp) -> Vec<Found> {
    day_of(at).map(|day| find_on(text, day)).unwrap_or_default()
}

fn find_on(text: &str, now: Date) -> Vec<Found> {
    let mut ranges = Vec::new();
    parts(text, |term| {
        if !term.whole {
            ranges.push(term.range.clone());
        }
    });
    let words = Words { text, ranges };
    let (mut found, mut place) = (Vec::new(), 0);
    while place < words.ranges.len() {
        let read = words
            .parse_numeric(place)
            .or_else(|| words.month(place, now))
            .or_else(|| words.seen_from(place, now));
        let Some((range, span, is_whole)) = read else {
            place += 1;
            continue;
        };
        let end = words.ranges.get(range.end - 1).map_or(0, |range| range.end);
        let start = words.ranges.get(range.start).map_or(end, |range| range.start);
        found.push(Found { bytes: start..end.max(start), span, is_whole });
        place = range.end.max(place + 1);
    }
    found
}

/// The words of a text.
struct Words<'t> {
    text: &'t str,
    ranges: Vec<Range<usize>>,
}

/// Range of the words, their span, and true if they have no other meaning.
type Read = (Range<usize>, Span, bool);

impl Words<'_> {
    /// Returns the word at that index; empty if it does not exist.
    fn word(&self, place: usize) -> &str {
        let range = self.ranges.get(place).cloned();
        range.and_then(|range| self.text.get(range)).unwrap_or_default()
    }

    fn before(&self, place: usize, back: usize) -> &str {
        place.checked_sub(back).map_or("", |place| self.word(place))
    }

    /// Returns the text between a word and the next.
    fn mark(&self, place: usize) -> &str {
        let from = self.ranges.get(place).map(|range| range.end);
        let to = self.ranges.get(place + 1).map(|range| range.start);
        from.zip(to).and_then(|(from, to)| self.text.get(from..to)).unwrap_or_default()
    }

    /// Parses `2024-05-15`, `2024-05`.
    fn parse_numeric(&self, place: usize) -> Option<Read> {
        let year = year(self.word(place))?;
        let mark = self.mark(place);
        let two = |place: usize, most: i8| {
            number(self.word(place)).filter(|number| (1..=most).contains(number))
        };
        if !matches!(mark, "-" | "/") || self.word(place + 1).len() != 2 {
            return None;
        }
        let month = two(place + 1, 12)?;
        if self.mark(place + 1) != mark {
            return (mark == "-").then_some((place..place + 2, Span::Month(year, month), true));
        }
        let day = Date::new(year, month, two(place + 2, 31)?).ok()?;
        Some((place..place + 3, Span::Day(day), true))
    }

    /// Parses `May 2023`, `8 May 2023`, `May 8th, 2023`, `in May`, `last May`.
    fn month(&self, place: usize, now: Date) -> Option<Read> {
        let name = self.word(place);
        let (month, is_sure) = month(name)?;
        let (mut from, mut to) = (place, place + 1);
        let day_at = |place: Option<usize>| {
            let place = place?;
            let is_short = self.word(place).len() <= 2;
            let day = number(self.word(place)).filter(|day| is_short && (1..=31).contains(day))?;
            Some((place, day))
        };
        let mut back = place.checked_sub(1);
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
        let year = year(self.word(to));
        to += usize::from(year.is_some());
        let has_number = day.or(year.map(|_| 0)).is_some();
        let before = self.before(from, 1);
        let is_name = name.starts_with(|c: char| c.is_ascii_uppercase());
        let is_month = match (is_sure, name.len()) {
            (true, _) => true,
            (false, ..=3) if !name.eq_ignore_ascii_case("may") => has_number,
            _ => is_name && (has_number || is_one_of(before, &BEFORE_MONTH)),
        };
        let span = match (year, day) {
            (Some(year), Some(day)) => Span::Day(Date::new(year, month, day).ok()?),
            (Some(year), None) => Span::Month(year, month),
            (None, day) => {
                let year = now.year() - i16::from(month >= now.month());
                match before.to_ascii_lowercase().as_str() {
                    "last" if day.is_none() => Span::Month(year, month),
                    "next" if day.is_none() => Span::Month(year + 1, month),
                    _ => Span::OfYear(month, day),
                }
            }
        };
        is_month.then_some((from..to, span, true))
    }

    /// Parses `yesterday`, `last week`, `three days ago`.
    fn seen_from(&self, place: usize, now: Date) -> Option<Read> {
        let word = self.word(place);
        let unit = self.word(place + 1);
        let (words, span) = match STEPS.iter().find(|(known, ..)| is_one_of(word, &[known])) {
            Some((_, step, 1)) => (1, relative_span("day", *step, now)?),
            Some(_) if is_one_of(unit, &["day"]) => return None,
            Some((_, step, words)) => (*words, relative_span(unit, *step, now)?),
            None if is_one_of(self.word(place + 2), &["ago"]) => {
                let named = NUMBERS.iter().position(|name| name.eq_ignore_ascii_case(word));
                let count = named.map(|at| at.max(1) as i64).or(number(word).map(i64::from));
                let count = count.filter(|count| *count > 0)?;
                (3, relative_span(unit.trim_end_matches(['s', 'S']), -count, now)?)
            }
            None => return None,
        };
        Some((place..place + words, span, false))
    }
}

/// Returns the unit that many steps from now; of a weekday the nearest before or after it.
fn relative_span(unit: &str, step: i64, now: Date) -> Option<Span> {
    if let Some(place) = WEEKDAYS.iter().position(|name| name.eq_ignore_ascii_case(unit)) {
        let weekday = Weekday::from_monday_zero_offset(i8::try_from(place).ok()?).ok()?;
        let nth = i32::try_from(step).ok().filter(|nth| *nth != 0).unwrap_or(1);
        return Some(Span::Day(now.nth_weekday(nth, weekday).ok()?));
    }
    Some(match unit.to_ascii_lowercase().as_str() {
        "day" | "night" => Span::Day(now.checked_add(step.days()).ok()?),
        "week" => week_of(now.checked_add(step.weeks()).ok()?)?,
        "weekend" => match week_of(now.checked_add(step.weeks()).ok()?)? {
            Span::Days(_, sunday) => Span::Days(sunday.yesterday().ok()?, sunday),
            other => other,
        },
        "month" => {
            let then = now.checked_add(step.months()).ok()?;
            Span::Month(then.year(), then.month())
        }
        "year" => Span::Year(now.checked_add(step.years()).ok()?.year()),
        _ => return None,
    })
}

/// Returns the week of a day, from Monday.
fn week_of(day: Date) -> Option<Span> {
    let monday = day.checked_sub(i64::from(day.weekday().to_monday_zero_offset()).days()).ok()?;
    Some(Span::Days(monday, monday.checked_add(6.days()).ok()?))
}

/// Returns the month of that name, and true if the name has no other meaning.
fn month(name: &str) -> Option<(i8, bool)> {
    if !(3..=9).contains(&name.len()) {
        return None;
    }
    let is = |month: &str| {
        name.eq_ignore_ascii_case(month)
            || month.get(..3).is_some_and(|short| name.eq_ignore_ascii_case(short))
            || month == "september" && name.eq_ignore_ascii_case("sept")
    };
    let place = MONTHS.iter().position(|month| is(month))?;
    Some((
        place as i8 + 1,
        name.len() > 4 && place != 2 || matches!(place, 5 | 6) && name.len() == 4,
    ))
}

fn is_one_of(word: &str, of: &[&str]) -> bool {
    of.iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn number(word: &str) -> Option<i8> {
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| is_number)
}

fn year(word: &str) -> Option<i16> {
    let is_year = word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|year| is_year && YEARS.contains(year))
}
