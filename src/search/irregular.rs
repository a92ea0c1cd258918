//! Irregular English forms that stemming does not resolve, such as *bought*, a form of *buy*.
//! Forms that are common words of another meaning ("bit", "rose") are left out. It must not stem a
//! word.

/// Each form and its base word, sorted by the bytes of the forms.
#[rustfmt::skip]
const FORMS: [&str; 286] = [
    "ate", "eat", "became", "become", "began", "begin", "begun", "begin", "bent", "bend",
    "blew", "blow", "blown", "blow", "bought", "buy", "broke", "break", "broken", "break",
    "brought", "bring", "built", "build", "came", "come", "caught", "catch", "children", "child",
    "chose", "choose", "chosen", "choose", "dealt", "deal", "drank", "drink", "drawn", "draw",
    "drew", "draw", "driven", "drive", "drove", "drive", "drunk", "drink", "eaten", "eat",
    "fallen", "fall", "fed", "feed", "feet", "foot", "fell", "fall", "felt", "feel", "fled", "flee",
    "flew", "fly", "flown", "fly", "forgave", "forgive", "forgiven", "forgive", "forgot", "forget",
    "forgotten", "forget", "fought", "fight", "found", "find", "froze", "freeze",
    "frozen", "freeze", "gave", "give", "geese", "goose", "given", "give", "gone", "go",
    "got", "get", "gotten", "get", "grew", "grow", "grown", "grow", "halves", "half",
    "heard", "hear", "held", "hold", "hid", "hide", "hidden", "hide", "hung", "hang",
    "kept", "keep", "knew", "know", "knives", "knife", "known", "know", "laid", "lay",
    "left", "leave", "lent", "lend", "lit", "light", "loaves", "loaf", "lost", "lose",
    "made", "make", "meant", "mean", "men", "man", "met", "meet", "mice", "mouse",
    "mistaken", "mistake", "mistook", "mistake", "overcame", "overcome", "paid", "pay",
    "ran", "run", "rang", "ring", "rebuilt", "rebuild", "resold", "resell", "rewritten", "rewrite",
    "rewrote", "rewrite", "ridden", "ride", "risen", "rise", "rode", "ride", "said", "say",
    "sang", "sing", "sank", "sink", "sat", "sit", "saw", "see", "seen", "see", "sent", "send",
    "sewn", "sew", "shaken", "shake", "shelves", "shelf", "shone", "shine", "shook", "shake",
    "shot", "shoot", "shown", "show", "slept", "sleep", "slid", "slide", "sold", "sell",
    "sought", "seek", "spent", "spend", "spoke", "speak", "spoken", "speak", "stole", "steal",
    "stolen", "steal", "stood", "stand", "struck", "strike", "stuck", "stick", "sung", "sing",
    "sunk", "sink", "swam", "swim", "swept", "sweep", "swore", "swear", "sworn", "swear",
    "swum", "swim", "taken", "take", "taught", "teach", "teeth", "tooth", "thieves", "thief",
    "thought", "think", "threw", "throw", "thrown", "throw", "told", "tell", "took", "take",
    "tore", "tear", "torn", "tear", "understood", "understand", "undone", "undo", "went", "go",
    "wept", "weep", "withdrawn", "withdraw", "withdrew", "withdraw", "wives", "wife",
    "woke", "wake", "woken", "wake", "wolves", "wolf", "women", "woman", "won", "win",
    "wore", "wear", "worn", "wear", "written", "write", "wrote", "write",
];

/// Returns the base word of a folded word, or the word itself.
pub(super) fn base_word(word: &str) -> &str {
    let (forms, _) = FORMS.as_chunks::<2>();
    let index = forms.binary_search_by_key(&word, |[form, _]| form);
    index.ok().and_then(|index| forms.get(index)).map_or(word, |[_, base]| base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_word_returns_the_base_of_every_listed_form() {
        let (forms, rest) = FORMS.as_chunks::<2>();
        assert!(rest.is_empty() && forms.is_sorted_by(|[one, _], [next, _]| one < next));
        assert!(forms.iter().all(|[form, base]| [base_word(form), base_word(base)] == [*base; 2]));
    }
}
