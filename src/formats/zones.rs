//! Time zones by the names in which web applications print them: `Eastern Time (US & Canada)`.
//!
//! The names are those of the Rails framework, which several providers are written in; each stands for one zone of the
//! IANA database. (api.rubyonrails.org, ActiveSupport::TimeZone)

use chrono_tz::Tz;

/// The zone of an IANA name or of a name in words; `(GMT-05:00)` may stand before it.
pub(super) fn named(label: &str) -> Option<Tz> {
    let label = label.strip_prefix("(GMT").and_then(|rest| rest.split_once(')')).map_or(label, |(_, name)| name).trim();
    label.parse().ok().or_else(|| {
        let found = IN_WORDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(label));
        found.map(|(_, zone)| *zone)
    })
}

const IN_WORDS: &[(&str, Tz)] = &[
    ("International Date Line West", Tz::Etc__GMTPlus12),
    ("Hawaii", Tz::Pacific__Honolulu),
    ("Alaska", Tz::America__Juneau),
    ("Pacific Time (US & Canada)", Tz::America__Los_Angeles),
    ("Tijuana", Tz::America__Tijuana),
    ("Mountain Time (US & Canada)", Tz::America__Denver),
    ("Arizona", Tz::America__Phoenix),
    ("Chihuahua", Tz::America__Chihuahua),
    ("Mazatlan", Tz::America__Mazatlan),
    ("Central Time (US & Canada)", Tz::America__Chicago),
    ("Saskatchewan", Tz::America__Regina),
    ("Guadalajara", Tz::America__Mexico_City),
    ("Mexico City", Tz::America__Mexico_City),
    ("Monterrey", Tz::America__Monterrey),
    ("Central America", Tz::America__Guatemala),
    ("Eastern Time (US & Canada)", Tz::America__New_York),
    ("Indiana (East)", Tz::America__Indiana__Indianapolis),
    ("Bogota", Tz::America__Bogota),
    ("Lima", Tz::America__Lima),
    ("Quito", Tz::America__Lima),
    ("Atlantic Time (Canada)", Tz::America__Halifax),
    ("Caracas", Tz::America__Caracas),
    ("La Paz", Tz::America__La_Paz),
    ("Santiago", Tz::America__Santiago),
    ("Puerto Rico", Tz::America__Puerto_Rico),
    ("Newfoundland", Tz::America__St_Johns),
    ("Brasilia", Tz::America__Sao_Paulo),
    ("Buenos Aires", Tz::America__Argentina__Buenos_Aires),
    ("Montevideo", Tz::America__Montevideo),
    ("Azores", Tz::Atlantic__Azores),
    ("Dublin", Tz::Europe__Dublin),
    ("Edinburgh", Tz::Europe__London),
    ("Lisbon", Tz::Europe__Lisbon),
    ("London", Tz::Europe__London),
    ("Casablanca", Tz::Africa__Casablanca),
    ("Monrovia", Tz::Africa__Monrovia),
    ("Belgrade", Tz::Europe__Belgrade),
    ("Bratislava", Tz::Europe__Bratislava),
    ("Budapest", Tz::Europe__Budapest),
    ("Ljubljana", Tz::Europe__Ljubljana),
    ("Prague", Tz::Europe__Prague),
    ("Sarajevo", Tz::Europe__Sarajevo),
    ("Skopje", Tz::Europe__Skopje),
    ("Warsaw", Tz::Europe__Warsaw),
    ("Zagreb", Tz::Europe__Zagreb),
    ("Brussels", Tz::Europe__Brussels),
    ("Copenhagen", Tz::Europe__Copenhagen),
    ("Madrid", Tz::Europe__Madrid),
    ("Paris", Tz::Europe__Paris),
    ("Amsterdam", Tz::Europe__Amsterdam),
    ("Berlin", Tz::Europe__Berlin),
    ("Bern", Tz::Europe__Zurich),
    ("Zurich", Tz::Europe__Zurich),
    ("Rome", Tz::Europe__Rome),
    ("Stockholm", Tz::Europe__Stockholm),
    ("Vienna", Tz::Europe__Vienna),
    ("Bucharest", Tz::Europe__Bucharest),
    ("Cairo", Tz::Africa__Cairo),
    ("Helsinki", Tz::Europe__Helsinki),
    ("Kyiv", Tz::Europe__Kiev),
    ("Riga", Tz::Europe__Riga),
    ("Sofia", Tz::Europe__Sofia),
    ("Tallinn", Tz::Europe__Tallinn),
    ("Vilnius", Tz::Europe__Vilnius),
    ("Athens", Tz::Europe__Athens),
    ("Istanbul", Tz::Europe__Istanbul),
    ("Jerusalem", Tz::Asia__Jerusalem),
    ("Harare", Tz::Africa__Harare),
    ("Pretoria", Tz::Africa__Johannesburg),
    ("Nairobi", Tz::Africa__Nairobi),
    ("Moscow", Tz::Europe__Moscow),
    ("Abu Dhabi", Tz::Asia__Muscat),
    ("Mumbai", Tz::Asia__Kolkata),
    ("New Delhi", Tz::Asia__Kolkata),
    ("Chennai", Tz::Asia__Kolkata),
    ("Kolkata", Tz::Asia__Kolkata),
    ("Bangkok", Tz::Asia__Bangkok),
    ("Hanoi", Tz::Asia__Bangkok),
    ("Jakarta", Tz::Asia__Jakarta),
    ("Beijing", Tz::Asia__Shanghai),
    ("Hong Kong", Tz::Asia__Hong_Kong),
    ("Kuala Lumpur", Tz::Asia__Kuala_Lumpur),
    ("Singapore", Tz::Asia__Singapore),
    ("Taipei", Tz::Asia__Taipei),
    ("Perth", Tz::Australia__Perth),
    ("Seoul", Tz::Asia__Seoul),
    ("Osaka", Tz::Asia__Tokyo),
    ("Sapporo", Tz::Asia__Tokyo),
    ("Tokyo", Tz::Asia__Tokyo),
    ("Adelaide", Tz::Australia__Adelaide),
    ("Darwin", Tz::Australia__Darwin),
    ("Brisbane", Tz::Australia__Brisbane),
    ("Canberra", Tz::Australia__Sydney),
    ("Hobart", Tz::Australia__Hobart),
    ("Melbourne", Tz::Australia__Melbourne),
    ("Sydney", Tz::Australia__Sydney),
    ("Auckland", Tz::Pacific__Auckland),
    ("Wellington", Tz::Pacific__Auckland),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_known_by_their_names_in_words_and_by_those_of_the_database() {
        for (label, zone) in [
            ("Eastern Time (US & Canada)", Some(Tz::America__New_York)),
            ("(GMT-08:00) Pacific Time (US & Canada)", Some(Tz::America__Los_Angeles)),
            ("America/Chicago", Some(Tz::America__Chicago)),
            ("UTC", Some(Tz::UTC)),
            ("Middle Earth", None),
        ] {
            assert_eq!(named(label), zone, "{label}");
        }
    }
}
