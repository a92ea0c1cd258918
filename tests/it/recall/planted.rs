//! Research sessions generated from a seed, with facts planted in them: two hundred ordinary steps,
//! and among them forty facts, each with a subject and a value that occurs nowhere else. The
//! generator does not depend on how a summary is made.

use serde_json::{Value, json};
use sessionlog_sim::SeededEntropy;

/// Adds members to the arguments.
fn with(mut arguments: Value, more: Value) -> Value {
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

pub const STEPS: u64 = 200;
pub const FACTS: usize = 40;

/// Part of a step that contains a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Description,
    Reasoning,
    Rejected,
    Source,
    Gap,
}

/// A fact: counted as shown when subject and value are in one line.
#[derive(Clone, Debug)]
pub struct Fact {
    pub place: Place,
    pub step: u64,
    pub subject: String,
    /// Property of the subject: the text between it and the value.
    pub aspect: &'static str,
    pub value: String,
}

/// A session to be recorded.
pub struct Session {
    pub calls: Vec<(&'static str, Value)>,
    pub facts: Vec<Fact>,
    /// Values that were stated and later revised.
    pub stale: Vec<String>,
    /// Descriptions of the steps, for the rule used for comparison.
    pub descriptions: Vec<String>,
}

/// Topic of a piece of research, and the way people write about it.
pub struct Shape {
    pub name: &'static str,
    goal: &'static str,
    subjects: &'static [&'static str],
    aspects: &'static [&'static str],
    /// The sentence of a fact: `{s}` has `{a}` `{v}`.
    told: &'static [&'static str],
    values: fn(&Dice) -> String,
    /// Text between the facts.
    filler: &'static [&'static str],
    reasons: &'static [&'static str],
    things: &'static [&'static str],
    rejected: &'static [&'static str],
    gaps: &'static [&'static str],
    titles: &'static [&'static str],
}

pub struct Dice(SeededEntropy);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    fn below(&self, bound: usize) -> usize {
        usize::try_from(self.0.next() % bound as u64).unwrap()
    }

    fn of(&self, all: &[&'static str]) -> &'static str {
        all[self.below(all.len())]
    }

    fn percent(&self, share: usize) -> bool {
        self.below(100) < share
    }
}

fn year_and_name(dice: &Dice) -> String {
    let name = ["Osgood", "Ferrante", "Ødegård", "Ibáñez", "Kowalczyk", "Mbeki", "Thorne", "Lisle"];
    format!("{} in {}", dice.of(&name), 1700 + dice.below(300))
}

fn setting(dice: &Dice) -> String {
    let unit = ["ms", "MiB", "connections", "retries", "seconds", "threads"];
    format!("{} {}", 3 + dice.below(9_000), dice.of(&unit))
}

fn price(dice: &Dice) -> String {
    format!("{}.{:02} EUR", 20 + dice.below(4_000), dice.below(100))
}

/// Returns a condition without digits or capitals.
fn condition(dice: &Dice) -> String {
    let when = ["before", "after", "only with", "never without", "only upon", "except for"];
    let whose = ["the lessor's", "the notary's", "a guardian's", "the council's", "the heir's"];
    let what =
        ["written consent", "second reading", "sealed receipt", "public hearing", "formal waiver"];
    format!("{} {} {}", dice.of(&when), dice.of(&whose), dice.of(&what))
}

fn identifier(dice: &Dice) -> String {
    let verb = ["flush", "merge", "drain", "probe", "rotate", "splice", "pin"];
    let noun = ["ledger", "cursor", "bucket", "lease", "frame", "shard", "beacon"];
    format!("{}_{}_{}()", dice.of(&verb), dice.of(&noun), dice.of(&["v2", "fast", "locked", "at"]))
}

fn measure(dice: &Dice) -> String {
    format!("{},{} Prozent 🧑‍🔬", 10 + dice.below(90), dice.below(10))
}

pub const SHAPES: [Shape; 6] = [
    Shape {
        name: "history",
        goal: "who first described the diving of kestrels, and from what evidence",
        subjects: &[
            "the Varna manuscript",
            "the harbour ledger",
            "the diocesan register",
            "the museum's index",
            "the second edition",
            "the engraving",
        ],
        aspects: &["was written by", "was first cited by", "was copied by", "is attributed to"],
        told: &[
            "{s} {a} {v}.",
            "It turns out that {s} {a} {v}.",
            "According to the catalogue, {s} {a} {v}, which settles the question.",
            "One thing is certain: {s} {a} {v}.",
        ],
        values: year_and_name,
        filler: &[
            "Searched for {t} and sorted the results by date.",
            "Opened result {n} and skimmed the introduction, which was of little use.",
            "The page about {t} only repeats what the encyclopaedia says.",
            "Went back to the list of {n} hits and tried the next one.",
            "Most of this concerns {t} and does not help here.",
            "Read pages {n} to {m} without finding anything new.",
            "Asked the librarian about {t}, still waiting for an answer.",
            "Noted the shelf mark {n}/{m} to come back to it later.",
        ],
        reasons: &[
            "Looking at {t} next seems the best use of the time.",
            "If {t} leads nowhere, the other archive remains.",
            "It is worth checking {t} before going further.",
        ],
        things: &[
            "falconry",
            "the naval archive",
            "early ornithology",
            "letters of the period",
            "the printing house",
            "travel diaries",
            "the county records",
            "bird observatories",
        ],
        rejected: &[
            "searching by author",
            "trusting the encyclopaedia on {t}",
            "reading all of {t}",
            "dating by watermark",
            "asking on a mailing list about {t}",
        ],
        gaps: &["whether {t} was ever catalogued", "who owned the papers on {t}"],
        titles: &["Notes on {t}", "A history of {t}", "Catalogue of {t}", "Essays on {t}"],
    },
    Shape {
        name: "incident",
        goal: "why checkout requests time out every night and how to stop it",
        subjects: &[
            "the payment gateway",
            "the session cache",
            "the edge proxy",
            "the job queue",
            "the replica",
            "the rate limiter",
        ],
        aspects: &["is limited to", "gives up after", "was configured with", "falls over at"],
        told: &[
            "{s} {a} {v}.",
            "Confirmed in the config: {s} {a} {v}.",
            "The graphs show that {s} {a} {v}, not what the runbook says.",
            "Reproduced it twice; {s} {a} {v}.",
        ],
        values: setting,
        filler: &[
            "Ran the query over {t} again with a wider window.",
            "Dashboards for {t} look normal between 0{n}:00 and 0{n}:30.",
            "Grepped the logs of {t} and got {m} lines, nothing suspicious.",
            "Restarted the tail on {t} because it had stopped.",
            "The alert for {t} fired {n} times but resolved by itself.",
            "Compared the deploy of build {m} with the one before; no difference in {t}.",
            "Pinged the on-call engineer for {t}, no reply yet.",
            "Opened ticket OPS-{m} to keep track of {t}.",
        ],
        reasons: &[
            "The symptom could still come from {t}, so rule it out first.",
            "Without numbers for {t} this is guessing.",
            "{t} changed last week, which makes it a suspect.",
        ],
        things: &[
            "the load balancer",
            "connection pools",
            "garbage collection",
            "the nightly batch",
            "DNS",
            "the feature flags",
            "kernel limits",
            "TLS handshakes",
        ],
        rejected: &[
            "blaming {t}",
            "restarting {t} on a timer",
            "raising limits on {t} blindly",
            "a packet capture on {t}",
            "adding more replicas for {t}",
        ],
        gaps: &["who owns the alert for {t}", "why {t} is not in the runbook"],
        titles: &["Runbook: {t}", "Postmortem of {t}", "Tuning {t}", "{t} explained"],
    },
    Shape {
        name: "purchase",
        goal: "which cargo bike to buy for two children, under four thousand",
        subjects: &[
            "the long-tail model",
            "the front loader",
            "the folding one",
            "the used trike",
            "the city version",
            "the tilting one",
        ],
        aspects: &["costs", "sells second-hand for", "comes with a rebate of", "was last seen at"],
        told: &[
            "{s} {a} {v}.",
            "Called the shop: {s} {a} {v} including delivery.",
            "Found it at last, {s} {a} {v}.",
            "On the manufacturer's page {s} {a} {v} this month.",
        ],
        values: price,
        filler: &[
            "Watched a review about {t}, {n} minutes, mostly advertising.",
            "The forum thread on {t} has {m} posts and no conclusion.",
            "Compared tables about {t} on two portals; they contradict each other.",
            "Looked at photos of {t} to see how it is mounted.",
            "Filled in the contact form of shop number {n} about {t}.",
            "The test magazine rates {t} with {n} of 10 points.",
            "Scrolled through listings with {t}, page {n}.",
            "Made a note to try {t} on Saturday.",
        ],
        reasons: &[
            "{t} matters more than looks.",
            "A test ride would answer this about {t}.",
            "Prices usually drop in autumn, so {t} can wait.",
        ],
        things: &[
            "belt drives",
            "hub motors",
            "rain covers",
            "battery range",
            "child seats",
            "hydraulic brakes",
            "insurance",
            "parking at school",
        ],
        rejected: &[
            "importing one for {t}",
            "leasing because of {t}",
            "a trailer instead of {t}",
            "building one with {t}",
            "waiting for next year's {t}",
        ],
        gaps: &["whether {t} fits through the gate", "how long {t} lasts in winter"],
        titles: &["{t}: the big test", "Buying guide to {t}", "All about {t}", "Forum: {t}"],
    },
    Shape {
        name: "law",
        goal: "under which conditions the lease may be passed on to a relative",
        subjects: &[
            "the sublease",
            "the deposit",
            "the garden plot",
            "the right of way",
            "the joint tenancy",
            "the option to renew",
        ],
        aspects: &["may be transferred", "can be revoked", "passes on", "becomes binding"],
        told: &[
            "{s} {a} {v}.",
            "The ruling is plain that {s} {a} {v}.",
            "Contrary to the leaflet, {s} {a} {v}.",
            "So {s} {a} {v}, and nothing else matters.",
        ],
        values: condition,
        filler: &[
            "the commentary on {t} is long and mostly historical.",
            "read the section about {t} again, more slowly this time.",
            "the leaflet on {t} gives an example that does not apply.",
            "the older cases about {t} were decided under another statute.",
            "looked up the meaning of {t} in two dictionaries.",
            "the clerk said that {t} is somebody else's department.",
            "this part on {t} can be skipped for now.",
            "a summary of {t} would be helpful but there is none.",
        ],
        reasons: &[
            "first understand {t}, then judge the rest.",
            "if {t} does not apply the question is moot.",
            "the wording on {t} is unclear.",
        ],
        things: &[
            "tenancy law",
            "inheritance",
            "municipal bylaws",
            "formal notice",
            "good faith",
            "family members",
            "the land register",
            "consumer protection",
        ],
        rejected: &[
            "arguing from {t}",
            "relying on {t} alone",
            "asking the landlord about {t}",
            "reading {t} narrowly",
            "treating it as {t}",
        ],
        gaps: &["whether {t} was amended", "how courts see {t} elsewhere"],
        titles: &["Commentary on {t}", "Handbook of {t}", "{t} in practice", "Cases on {t}"],
    },
    Shape {
        name: "code",
        goal: "move the scheduler from callbacks to async without losing back-pressure",
        subjects: &[
            "the retry loop",
            "the writer thread",
            "the admission gate",
            "the timer wheel",
            "the shutdown path",
            "the metrics hook",
        ],
        aspects: &["must go through", "is only safe inside", "deadlocks with", "relies on"],
        told: &[
            "{s} {a} `{v}`.",
            "Bisected it down: {s} {a} `{v}`.",
            "From the panic it is clear that {s} {a} `{v}` and nothing above it.",
            "Reading blame helps: {s} {a} `{v}`.",
        ],
        values: identifier,
        filler: &[
            "Ran the tests of {t}, {n} passed and one was skipped.",
            "Opened src/{n}/mod.rs and followed the calls into {t}.",
            "The type of {t} is inferred, so rename it first.",
            "Moved {m} lines about {t} into their own module.",
            "Formatting of {t} only, no change in behaviour.",
            "The comment in {t} is out of date.",
            "Compiles again after fixing the imports of {t}.",
            "Looked at how {t} is done in the old branch, commit {m}.",
        ],
        reasons: &[
            "Touching {t} now would make the diff hard to review.",
            "{t} has no tests, so write one first.",
            "The borrow checker will complain about {t}.",
        ],
        things: &[
            "the builder",
            "error handling",
            "the thread pool",
            "tracing spans",
            "the config parser",
            "channel capacity",
            "drop order",
            "the public API",
        ],
        rejected: &[
            "a global lock around {t}",
            "rewriting {t} from scratch",
            "boxing {t}",
            "polling {t} in a loop",
            "feature flags for {t}",
        ],
        gaps: &["who still calls {t} directly", "whether {t} may be Send"],
        titles: &["RFC: {t}", "Design of {t}", "{t} internals", "Issue: {t}"],
    },
    Shape {
        name: "deutsch",
        goal: "wie gut Wärmepumpen in unsanierten Altbauten arbeiten — Zahlen, keine Werbung",
        subjects: &[
            "die Anlage in Görlitz",
            "das Reihenhaus",
            "der Feldversuch",
            "die Südfassade",
            "der Pufferspeicher",
            "die Fußbodenheizung",
        ],
        aspects: &["erreicht", "verliert", "spart", "schwankt um"],
        told: &[
            "{s} {a} {v}.",
            "Laut Messprotokoll gilt: {s} {a} {v}.",
            "Überraschend, aber belegt — {s} {a} {v}.",
            "Damit steht fest, {s} {a} {v}.",
        ],
        values: measure,
        filler: &[
            "Die Broschüre über {t} gelesen, nichts Neues.",
            "Seite {n} und {m} über {t} überflogen 👨‍👩‍👧.",
            "Den Artikel zu {t} gesucht und nur die Kurzfassung gefunden.",
            "Im Forum schreiben {n} Leute über {t}, alle ohne Messwerte.",
            "Die Tabelle zu {t} ist unvollständig.",
            "Noch einmal nach {t} gesucht, mit anderen Wörtern.",
            "Der Hersteller antwortet zu {t} ausweichend.",
            "Das Video zu {t} dauert {n} Minuten und ist Werbung.",
        ],
        reasons: &[
            "Ohne {t} lässt sich das nicht beurteilen.",
            "Zuerst {t} klären, dann den Rest.",
            "Bei {t} sind die Angaben widersprüchlich.",
        ],
        things: &[
            "Vorlauftemperatur",
            "Dämmung",
            "Fördermittel",
            "Schallschutz",
            "Stromtarife",
            "Heizkörper",
            "Taupunkt",
            "Speichergröße",
        ],
        rejected: &[
            "nur auf {t} zu schauen",
            "Werbezahlen zu {t}",
            "{t} zu schätzen",
            "{t} selbst zu messen",
            "Foren zu {t}",
        ],
        gaps: &["wie {t} gemessen wurde", "ob {t} im Preis enthalten ist"],
        titles: &["Leitfaden {t}", "{t} im Altbau", "Studie zu {t}", "{t}: Praxis"],
    },
];

impl Shape {
    fn words(&self, dice: &Dice, template: &str) -> String {
        let number = |bound: usize| (2 + dice.below(bound)).to_string();
        let text = template.replace("{t}", dice.of(self.things));
        text.replace("{n}", &number(8)).replace("{m}", &number(900))
    }

    fn fill_template(&self, dice: &Dice, templates: &'static [&'static str]) -> String {
        let text = self.words(dice, dice.of(templates));
        // A third of the filler sentences also contains a name.
        if !dice.percent(33) {
            return text;
        }
        let aside = format!(" ({}, {})", name(dice), 100 + dice.below(900));
        match text.strip_suffix('.') {
            Some(text) => format!("{text}{aside}."),
            None => text + &aside,
        }
    }

    fn fact(
        &self,
        dice: &Dice,
        taken: &[Fact],
        stale: &[String],
    ) -> (String, String, &'static str) {
        loop {
            let value = (self.values)(dice);
            let same = |other: &String| other.contains(&value) || value.contains(other);
            let known = taken.iter().any(|fact| same(&fact.value)) || stale.iter().any(same);
            if !known {
                return (dice.of(self.subjects).to_owned(), value, dice.of(self.aspects));
            }
        }
    }

    fn tell(&self, dice: &Dice, subject: &str, aspect: &str, value: &str) -> String {
        let text = dice.of(self.told).replace("{s}", subject);
        let text = text.replace("{a}", aspect).replace("{v}", value);
        let mut letters = text.chars();
        letters.next().map(|c| c.to_uppercase().chain(letters).collect()).unwrap_or_default()
    }
}

/// Returns a random name without an owner.
fn name(dice: &Dice) -> String {
    const PARTS: [&str; 12] =
        ["Bar", "ton", "Mel", "vik", "Sor", "end", "Kal", "ish", "Dru", "lon", "Pet", "ova"];
    let ends = [dice.of(&PARTS), dice.of(&PARTS), dice.of(&PARTS)];
    format!("{}{}{}", ends[0], ends[1].to_lowercase(), ends[2].to_lowercase())
}

/// Places of the forty facts: sixteen in descriptions, eight in rejected approaches, six in
/// reasons, five each in sources and open gaps.
fn places() -> impl Iterator<Item = Place> {
    use Place::{Description, Gap, Reasoning, Rejected, Source};
    [(Description, 16), (Rejected, 8), (Reasoning, 6), (Source, 5), (Gap, 5)]
        .into_iter()
        .flat_map(|(place, count)| std::iter::repeat_n(place, count))
}

/// Generates a session of that shape.
pub fn session(shape: &Shape, seed: u64) -> Session {
    let dice = Dice::new(seed);
    let mut numbers: Vec<u64> = (1..=STEPS).collect();
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, dice.below(at + 1));
    }
    let (mut facts, mut told) = (Vec::new(), Vec::new());
    for (place, step) in places().zip(&numbers) {
        let (subject, value, aspect) = shape.fact(&dice, &facts, &[]);
        told.push(shape.tell(&dice, &subject, aspect, &value));
        facts.push(Fact { place, step: *step, subject, aspect, value });
    }
    // Stated once and revised some steps later, in steps without a fact.
    let (mut stale, mut wrong, mut revisions) = (Vec::new(), Vec::new(), Vec::new());
    for step in numbers[FACTS..].iter().filter(|step| **step < STEPS - 20).take(6) {
        let at = step + 3 + dice.below(12) as u64;
        if revisions.iter().any(|(other, _)| *other == at) {
            continue;
        }
        revisions.push((at, *step));
        let (subject, value, aspect) = shape.fact(&dice, &facts, &stale);
        wrong.push((*step, shape.tell(&dice, &subject, aspect, &value)));
        stale.push(value);
    }
    let mut made = Session { calls: Vec::new(), facts, stale, descriptions: Vec::new() };
    for number in 1..=STEPS {
        let fact = made.facts.iter().position(|fact| fact.step == number);
        let fact = fact.map(|at| (made.facts[at].clone(), told[at].clone()));
        let mistake = wrong.iter().find(|(step, _)| *step == number).map(|(_, text)| text.clone());
        let revises = revisions.iter().find(|(at, _)| *at == number).map(|(_, of)| *of);
        step(shape, &dice, number, fact, mistake, revises, &mut made);
    }
    made
}

fn step(
    shape: &Shape,
    dice: &Dice,
    number: u64,
    fact: Option<(Fact, String)>,
    mistake: Option<String>,
    revises: Option<u64>,
    made: &mut Session,
) {
    let told = |place: Place| {
        fact.as_ref().filter(|(fact, _)| fact.place == place).map(|(_, told)| told.clone())
    };
    let mut sentences: Vec<String> =
        (0..3 + dice.below(4)).map(|_| shape.fill_template(dice, shape.filler)).collect();
    for text in told(Place::Description).into_iter().chain(mistake.clone()) {
        sentences.insert(dice.below(sentences.len() + 1), text);
    }
    let description = sentences.join(" ");
    let mut reasons: Vec<String> =
        (0..dice.below(3)).map(|_| shape.fill_template(dice, shape.reasons)).collect();
    if let Some(text) = told(Place::Reasoning) {
        reasons.insert(dice.below(reasons.len() + 1), text);
    }
    let mut rejected: Vec<String> = (0..if dice.percent(15) { 1 + dice.below(2) } else { 0 })
        .map(|_| shape.fill_template(dice, shape.rejected))
        .collect();
    rejected.extend(told(Place::Rejected));
    let sure = fact.is_some() || mistake.is_some();
    let confidence = match dice.below(100) {
        roll if roll < if sure { 50 } else { 15 } => Some("high"),
        roll if roll < 70 => Some("medium"),
        roll if roll < 80 => Some("low"),
        _ => None,
    };
    let mut call = json!({"searchStep": description, "stepNumber": number, "nextStepNeeded": true});
    let mut put = |more: Value| call = with(call.clone(), more);
    if number == 1 {
        put(json!({"researchGoal": shape.goal, "totalStepsEstimate": STEPS + 20}));
    }
    if !reasons.is_empty() {
        put(json!({"reasoning": reasons.join(" ")}));
    }
    if !rejected.is_empty() {
        put(json!({ "rejectedApproaches": rejected }));
    }
    if let Some(confidence) = confidence {
        put(json!({ "confidence": confidence }));
    }
    if let Some(revised) = revises {
        put(json!({"isRevision": true, "revisesStep": revised}));
    }
    if let Some(gap) = told(Place::Gap) {
        put(json!({ "knowledgeGap": gap }));
    } else if number % 16 == 5 {
        // Opened here, closed eight steps later.
        put(
            json!({"knowledgeGap": format!("{} ({number})", shape.fill_template(dice, shape.gaps))}),
        );
    } else if number % 16 == 13 && number > 8 {
        let opened = number - 8;
        let is_open = made.calls.iter().any(|(_, call)| {
            call["stepNumber"] == opened
                && call["knowledgeGap"]
                    .as_str()
                    .is_some_and(|gap| gap.ends_with(&format!("({opened})")))
        });
        if is_open {
            put(json!({"closesGap": format!("g{opened}")}));
        }
    }
    made.calls.push(("sequential_search", call));
    made.descriptions.push(description);
    let found = told(Place::Source);
    if found.is_some() || dice.percent(25) {
        let title = found.unwrap_or_else(|| shape.fill_template(dice, shape.titles));
        let url = format!("https://{}.example/{}/{}", shape.name, number, dice.below(90_000));
        let source = json!({"url": url, "title": title, "relevance": "scraped"});
        made.calls.push(("add_sources", json!({"sources": [source]})));
    }
}
