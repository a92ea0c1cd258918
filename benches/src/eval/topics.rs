//! Word tables of the generated research: subjects, sentences of findings, and filler. In `told`,
//! `<s>` is the subject and `<v>` the value of a planted fact; no alternative begins with `<v>`,
//! which would become upper case there. It must not contain logic.

use super::grammar::Grammar;

/// A topic of generated research.
#[derive(Debug)]
pub(super) struct Topic {
    /// Name in reports and addresses.
    pub(super) name: &'static str,
    /// Goal that the caller sets.
    pub(super) goal: &'static str,
    /// Word tables.
    pub(super) grammar: Grammar,
    /// Separator of two sentences.
    pub(super) stop: &'static str,
    /// Separator of clauses where a whole step is one sentence.
    pub(super) joint: &'static str,
}

/// All topics.
pub(super) const TOPICS: [Topic; 8] = [
    Topic {
        name: "history",
        goal: "who first described the diving of kestrels, and from what evidence",
        grammar: Grammar { tables: [HISTORY, ENGLISH], habits: 0 },
        stop: ". ",
        joint: " and then ",
    },
    Topic {
        name: "incident",
        goal: "why checkout requests time out every night and how to stop it",
        grammar: Grammar { tables: [INCIDENT, ENGLISH], habits: 0 },
        stop: ". ",
        joint: ", ",
    },
    Topic {
        name: "purchase",
        goal: "which cargo bike fits a family of five below 4 000 euros",
        grammar: Grammar { tables: [PURCHASE, ENGLISH], habits: 0 },
        stop: ". ",
        joint: "; ",
    },
    Topic {
        name: "law",
        goal: "under which conditions the lease may be passed on to a relative",
        grammar: Grammar { tables: [LAW, ENGLISH], habits: 0 },
        stop: ". ",
        joint: ", whereas ",
    },
    Topic {
        name: "code",
        goal: "move the scheduler from callbacks to async without losing back-pressure",
        grammar: Grammar { tables: [CODE, ENGLISH], habits: 0 },
        stop: ". ",
        joint: " -> ",
    },
    Topic {
        name: "chemistry",
        goal: "which catalyst keeps its yield above 90 percent after ten cycles",
        grammar: Grammar { tables: [CHEMISTRY, ENGLISH], habits: 0 },
        stop: ". ",
        joint: ", ",
    },
    Topic {
        name: "deutsch",
        goal: "wie gut Wärmepumpen in unsanierten Altbauten arbeiten — Zahlen, keine Werbung",
        grammar: Grammar { tables: [HEATING, GERMAN], habits: 0 },
        stop: ". ",
        joint: ", danach ",
    },
    Topic {
        name: "francais",
        goal: "quelles digues de la vallée tiendront une crue centennale, et d'après quelles mesures",
        grammar: Grammar { tables: [DIKES, FRENCH], habits: 0 },
        stop: ". ",
        joint: " puis ",
    },
];

type Words = super::grammar::Words;

const ENGLISH: Words = &[
    (
        "lead",
        &[
            "{work}",
            "{work}",
            "{work}",
            "First {work}",
            "Then {work}",
            "Again {work}",
            "On the side, {work}",
            "With {name}'s list at hand {work}",
            "At {clock} {work}",
        ],
    ),
    (
        "work",
        &[
            "searched for {thing}{extent}",
            "opened result {n} on {thing}{use}",
            "read pages {n} to {m} about {thing}{use}",
            "compared {thing} with {thing}{use}",
            "asked {name} about {thing}{wait}",
            "noted {code} for {thing} to come back to it",
            "went through {m} entries on {thing}{use}",
            "checked {subject} against {thing}{use}",
            "sorted {k} lines on {thing} by date",
            "followed the link from {thing} to {thing}{use}",
            "skimmed what {name} wrote on {thing}{use}",
            "looked {subject} up under {code}{use}",
            "wrote {name} a mail about {subject}{wait}",
            "tried {thing} with other words{extent}",
        ],
    ),
    (
        "extent",
        &[
            "",
            ", {m} hits",
            ", {k} hits in {n} lists",
            " and sorted by date",
            ", only {n} of {m} hits could be opened",
            " under {code}",
        ],
    ),
    (
        "use",
        &[
            "",
            ", nothing new",
            ", which was of little use",
            " without finding a date",
            "; {name} only repeats what is known",
            ", all {n} of them older than wanted",
            ", item {code} is missing",
            ", {share} percent of it off topic",
            "; it stops in the middle of page {m}",
        ],
    ),
    (
        "wait",
        &[
            "",
            ", still waiting",
            ", no reply yet",
            ", who is away until {clock}",
            " (ticket {code})",
            " and got {n} answers that contradict each other",
        ],
    ),
    (
        "remark",
        &[
            "the page on {thing} has {m} comments and no conclusion",
            "most of this concerns {thing} and does not help here",
            "{name}'s notes on {thing} were last changed in {year}",
            "the part on {thing} can be skipped for now",
            "{thing} comes up {n} times, always in passing",
            "there is a second copy of this under {code}",
            "{name} and {name} disagree about {thing}",
            "the list of {thing} has {k} rows, {n} of them empty",
            "version {n}.{m} says the same on {thing} as the one before",
        ],
    ),
    ("filler", &["{lead}", "{lead}", "{remark}"]),
    (
        "same",
        &[
            "Ran the query over {thing} again, {m} rows this time",
            "Page {m} of the list on {thing}: nothing of use",
            "Attempt {m} at {thing}: the same answer as before",
            "Result {m} for {thing} repeats the abstract word for word",
            "Read {m} more entries on {thing}, none with a source",
        ],
    ),
    (
        "reason",
        &[
            "looking at {thing} next seems the best use of the time",
            "if {thing} leads nowhere, {thing} remains",
            "{thing} has to be settled before the rest",
            "{name} treats {thing} and {thing} as one",
            "checking {thing} costs {n} minutes at most",
            "without {thing} the figure of {share} percent means little",
            "{subject} is mentioned {n} times beside {thing}",
        ],
    ),
    (
        "rejected",
        &[
            "searching for {thing} by name",
            "taking {name}'s word on {thing}",
            "reading all {k} pages on {thing}",
            "asking {name} about {thing} again",
            "estimating {thing} from {code}",
            "dating it by {thing}",
            "mixing {thing} with {thing}",
        ],
    ),
    (
        "gap",
        &[
            "whether {thing} was ever checked by {name}",
            "how {thing} relates to {code}",
            "who has the other {n} copies of {thing}",
            "what {thing} looked like before {year}",
            "where the {m} missing entries on {thing} went",
        ],
    ),
    (
        "title",
        &[
            "Notes on {thing}, part {n}",
            "{name}: {thing} in practice",
            "A guide to {thing}",
            "{thing} ({year})",
            "Report {code}: {thing}",
            "All {m} questions about {thing}",
        ],
    ),
];

const HISTORY: Words = &[
    ("subject", &["the {place} {document}", "the {document} of {place}", "{place}'s {document}"]),
    ("place", &["Varna", "harbour", "diocesan", "museum", "Lübeck", "abbey", "university"]),
    ("document", &["manuscript", "ledger", "register", "index", "engraving", "letter book"]),
    ("value", &["{name} in {year}", "{name} of {code}", "the younger {name}", "{name} and {name}"]),
    (
        "told",
        &[
            "<s> was written by <v>",
            "it turns out that <s> was copied by <v>",
            "according to the catalogue, <s> is the work of <v>, which settles the question",
            "one thing is certain: <s> goes back to <v>",
            "<s> names <v> as its source",
            "the hand in <s> is that of <v>",
            "in all likelihood <v> owned <s>",
        ],
    ),
    (
        "thing",
        &[
            "falconry",
            "the naval archive",
            "early ornithology",
            "letters of the period",
            "the printing house",
            "travel diaries",
            "the county records",
            "bird observatories",
            "watermarks",
            "the bishop's library",
        ],
    ),
];

const INCIDENT: Words = &[
    ("subject", &["the {tier} {part}", "{part} {n} of the {tier} tier"]),
    ("tier", &["payment", "session", "edge", "search", "billing", "replica"]),
    ("part", &["gateway", "cache", "proxy", "job queue", "rate limiter", "connection pool"]),
    (
        "value",
        &[
            "{k} ms",
            "{m} connections",
            "{n} retries of {m} seconds",
            "{m} MiB per worker",
            "build {hex}",
        ],
    ),
    (
        "told",
        &[
            "<s> is limited to <v>",
            "confirmed in the config: <s> gives up after <v>",
            "the graphs show that <s> falls over at <v>, not what the runbook says",
            "reproduced it twice, <s> stalls at <v>",
            "since Tuesday <s> has been running with <v>",
            "at night <v> is all that <s> gets",
        ],
    ),
    (
        "thing",
        &[
            "the dashboards",
            "the nightly export",
            "the deploy log",
            "kernel counters",
            "the canary",
            "the alert rules",
            "cron jobs",
            "TLS handshakes",
            "slow queries",
            "the status page",
        ],
    ),
];

const PURCHASE: Words = &[
    ("subject", &["the {maker} {model}", "{maker}'s {model}", "the used {maker} {model}"]),
    ("maker", &["Urbo", "Lastrad", "Kestrel", "Vandaal", "Nordlys", "Tilo"]),
    ("model", &["long john", "midtail", "trike", "box bike", "tandem", "compact"]),
    ("value", &["{money} EUR", "{m} kg of load", "{m} km on one charge", "warranty class {code}"]),
    (
        "told",
        &[
            "<s> comes with <v>",
            "the invoice for <s> says <v>",
            "<s> is offered at <v>",
            "asked twice: <s> is good for <v>, whatever the leaflet claims",
            "measured on the scale, <s> takes <v>",
            "with <v> <s> leads the list",
        ],
    ),
    (
        "thing",
        &[
            "belt drives",
            "hub motors",
            "rain covers",
            "battery range",
            "child seats",
            "hydraulic brakes",
            "insurance",
            "parking at school",
            "leasing",
            "tyre widths",
        ],
    ),
];

const LAW: Words = &[
    ("subject", &["the {right}", "the {right} under section {n}", "a {right} of the family"]),
    (
        "right",
        &[
            "sublease",
            "deposit",
            "garden plot",
            "right of way",
            "joint tenancy",
            "option to renew",
            "pre-emption",
        ],
    ),
    ("value", &["{when} {whose} {what}"]),
    ("when", &["before", "after", "only with", "never without", "only upon", "except for"]),
    (
        "whose",
        &[
            "the lessor's",
            "the notary's",
            "a guardian's",
            "the council's",
            "the heir's",
            "the registrar's",
            "every neighbour's",
        ],
    ),
    (
        "what",
        &[
            "written consent",
            "second reading",
            "sealed receipt",
            "public hearing",
            "formal waiver",
            "signed inventory",
            "personal appearance",
        ],
    ),
    (
        "told",
        &[
            "<s> may be transferred <v>",
            "the ruling is plain that <s> passes on <v>",
            "contrary to the leaflet, <s> can be revoked <v>",
            "so <s> becomes binding <v>, and nothing else matters",
            "<s> ends <v>",
        ],
    ),
    (
        "thing",
        &[
            "tenancy law",
            "inheritance",
            "municipal bylaws",
            "formal notice",
            "good faith",
            "family members",
            "the land register",
            "consumer protection",
            "the older cases",
            "the commentary",
        ],
    ),
];

const CODE: Words = &[
    ("subject", &["the {part} {unit}", "the {unit} in {part}", "{part}'s {unit}"]),
    ("part", &["retry", "writer", "admission", "timer", "shutdown", "metrics"]),
    ("unit", &["loop", "thread", "gate", "wheel", "path", "hook"]),
    ("value", &["`{verb}_{noun}_{end}()`", "`{noun}::{verb}_{end}`", "`{noun}.rs:{m}`"]),
    ("verb", &["flush", "merge", "drain", "probe", "rotate", "splice", "pin"]),
    ("noun", &["ledger", "cursor", "bucket", "lease", "frame", "shard", "beacon"]),
    ("end", &["v{n}", "fast", "locked", "at_{m}", "once"]),
    (
        "told",
        &[
            "<s> must go through <v>",
            "bisected it down: <s> deadlocks with <v>",
            "from the panic it is clear that <s> relies on <v> and nothing above it",
            "reading blame helps, <s> is only safe inside <v>",
            "it is <v> that wakes <s>",
        ],
    ),
    (
        "thing",
        &[
            "the builder",
            "error handling",
            "the thread pool",
            "tracing spans",
            "the config parser",
            "channel capacity",
            "drop order",
            "the public API",
            "src/{noun}/mod.rs",
            "commit {hex}",
        ],
    ),
];

const CHEMISTRY: Words = &[
    ("subject", &["the {metal} {carrier}", "{carrier}-bound {metal}", "{metal} on {carrier}"]),
    ("metal", &["palladium", "nickel", "cobalt", "ruthenium", "copper", "cerium"]),
    ("carrier", &["zeolite", "alumina", "charcoal", "silica foam", "titania"]),
    ("value", &["{share} % yield", "{m} mg of leaching", "{m} K", "batch {code}"]),
    (
        "told",
        &[
            "<s> holds <v>",
            "run after run <s> gave <v>",
            "the assay puts <s> at <v>",
            "<s> fails beyond <v>, as the blank proves",
            "repeated with new solvent, <s> reaches <v>",
            "at best <v> was seen with <s>",
        ],
    ),
    (
        "thing",
        &[
            "the solvent",
            "turnover numbers",
            "XRD patterns",
            "the stirring rate",
            "moisture",
            "the supplier's sheet",
            "filtration",
            "sample {code}",
            "the reference run",
            "gas flow",
        ],
    ),
];

const GERMAN: Words = &[
    ("filler", &["{arbeit}", "{arbeit}", "{bemerkung}"]),
    (
        "arbeit",
        &[
            "nach {thing} gesucht{umfang}",
            "Seite {n} bis {m} über {thing} gelesen{nutzen}",
            "{name} zu {thing} gefragt{warten}",
            "{thing} mit {thing} verglichen{nutzen}",
            "die {m} Einträge zu {thing} durchgesehen{nutzen}",
            "{code} zu {thing} vorgemerkt",
            "{subject} unter {code} nachgeschlagen{nutzen}",
        ],
    ),
    ("umfang", &["", ", {m} Treffer", ", nur {n} von {m} lesbar", " und nach Datum sortiert"]),
    (
        "nutzen",
        &[
            "",
            ", nichts Neues",
            ", ohne Messwerte",
            "; {name} schreibt nur ab",
            ", {share} Prozent davon Werbung",
            ", Anlage {code} fehlt",
        ],
    ),
    ("warten", &["", ", noch keine Antwort", ", bis {clock} Uhr nicht da", " (Vorgang {code})"]),
    (
        "bemerkung",
        &[
            "im Forum schreiben {m} Leute über {thing} 👨‍👩‍👧",
            "die Tabelle zu {thing} ist unvollständig",
            "{name} und {name} widersprechen sich bei {thing}",
            "das Video zu {thing} dauert {n} Minuten",
        ],
    ),
    (
        "same",
        &[
            "Datenblatt {m} zu {thing}: derselbe Text wie zuvor",
            "Noch einmal nach {thing} gesucht, diesmal {m} Treffer",
            "Eintrag {m} zu {thing} nennt keine Quelle",
        ],
    ),
    (
        "reason",
        &[
            "ohne {thing} lässt sich das nicht beurteilen",
            "zuerst {thing}, dann {thing}",
            "bei {thing} sind die Angaben widersprüchlich",
            "{name} rechnet {thing} anders",
        ],
    ),
    (
        "rejected",
        &[
            "nur auf {thing} zu schauen",
            "{thing} aus {code} zu schätzen",
            "{name} noch einmal nach {thing} zu fragen",
            "Foren zu {thing}",
            "{thing} selbst zu messen",
        ],
    ),
    (
        "gap",
        &[
            "wie {thing} gemessen wurde",
            "ob {thing} in {code} enthalten ist",
            "wer die {m} Werte zu {thing} hat",
        ],
    ),
    (
        "title",
        &["Leitfaden {thing}, Teil {n}", "{name}: {thing} im Altbau", "Studie {code} zu {thing}"],
    ),
];

const HEATING: Words = &[
    (
        "subject",
        &["die Anlage in {ort}", "das {haus} in {ort}", "der {teil}", "der {teil} in {ort}"],
    ),
    ("ort", &["Görlitz", "Xanten", "Öhringen", "Straelen", "Zittau", "Jüterbog"]),
    ("haus", &["Reihenhaus", "Pfarrhaus", "Fachwerkhaus", "Eckhaus"]),
    ("teil", &["Pufferspeicher", "Feldversuch", "Verdichter", "Heizkreis", "Vorlauf"]),
    ("value", &["{m},{n} Prozent 🧑‍🔬", "{k} Kilowattstunden", "Jahresarbeitszahl {n},{m}"]),
    (
        "told",
        &[
            "<s> erreicht <v>",
            "laut Messprotokoll gilt: <s> verliert <v>",
            "überraschend, aber belegt — <s> spart <v>",
            "damit steht fest, <s> schwankt um <v>",
            "im Januar hat <s> laut Zähler <v> gebraucht",
        ],
    ),
    (
        "thing",
        &[
            "Vorlauftemperatur",
            "Dämmung",
            "Fördermittel",
            "Schallschutz",
            "Stromtarife",
            "Heizkörper",
            "Taupunkt",
            "Speichergröße",
        ],
    ),
];

const FRENCH: Words = &[
    ("filler", &["{travail}", "{travail}", "{remarque}"]),
    (
        "travail",
        &[
            "cherché {thing}{nombre}",
            "lu les pages {n} à {m} sur {thing}{utile}",
            "demandé à {name} pour {thing}, sans réponse",
            "comparé {thing} et {thing}{utile}",
            "noté la cote {code} pour {thing}",
            "parcouru {m} fiches sur {thing}{utile}",
            "vérifié {subject} dans {code}{utile}",
        ],
    ),
    ("nombre", &["", ", {m} résultats", ", {n} sur {m} lisibles", " et trié par date"]),
    (
        "utile",
        &["", ", rien de neuf", ", sans date", "; {name} recopie", ", annexe {code} absente"],
    ),
    (
        "remarque",
        &[
            "{name} et {name} ne sont pas d'accord sur {thing}",
            "la page sur {thing} date de {year}",
            "le tableau de {thing} a {k} lignes vides",
        ],
    ),
    (
        "same",
        &[
            "Fiche {m} sur {thing} : le même texte qu'avant",
            "Relancé la recherche sur {thing}, {m} résultats cette fois",
            "Le relevé {m} de {thing} n'a pas de source",
        ],
    ),
    (
        "reason",
        &[
            "sans {thing} on ne peut rien conclure",
            "d'abord {thing}, ensuite {thing}",
            "{name} confond {thing} et {thing}",
            "il reste {n} jours pour {thing}",
        ],
    ),
    (
        "rejected",
        &[
            "estimer {thing} d'après {code}",
            "croire {name} sur {thing}",
            "relire les {k} pages sur {thing}",
            "mesurer {thing} soi-même",
        ],
    ),
    (
        "gap",
        &[
            "qui a relevé {thing} avant {year}",
            "où sont les {m} fiches de {thing}",
            "si {name} a contrôlé {thing}",
        ],
    ),
    ("title", &["Rapport {code} : {thing}", "{name}, {thing} en pratique", "{thing} ({year})"]),
];

const DIKES: Words = &[
    ("subject", &["la digue de {lieu}", "la digue {cote} de {lieu}", "le déversoir de {lieu}"]),
    ("lieu", &["Comps", "Vallabrègues", "l'Écluse", "Saint-Gilles", "Barbentane", "la Roubine"]),
    ("cote", &["nord", "sud", "neuve", "haute"]),
    ("value", &["{m} centimètres", "{k} mètres cubes", "la borne {code}", "{share} pour cent"]),
    (
        "told",
        &[
            "<s> tient jusqu'à <v>",
            "d'après le relevé, <s> s'est affaissée de <v>",
            "c'est établi : <s> perd <v> par crue",
            "<s> a été rehaussée à <v>",
            "au plus <v>, c'est tout ce que <s> supporte",
        ],
    ),
    (
        "thing",
        &[
            "le cadastre",
            "les archives du syndicat",
            "la crue précédente",
            "les terriers",
            "le débit",
            "la météo",
            "les subventions",
            "le modèle hydraulique",
        ],
    ),
];
