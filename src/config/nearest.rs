//! The valid name that somebody probably meant.

/// Finds the name nearest to `word`, unless all are so far away that a suggestion would mislead.
pub(super) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .filter_map(|name| {
            let limit = (name.len() / 3).max(1);
            // The lengths alone bound the distance from below, so a huge word costs nothing.
            if word.len().abs_diff(name.len()) > limit {
                return None;
            }
            let distance = distance(word.as_bytes(), name.as_bytes());
            (distance <= limit).then_some((distance, name))
        })
        .min()
        .map(|(_, name)| name)
}

/// Counts the bytes to insert, remove or replace on the way from `from` to `to` (Levenshtein).
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replace = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        for (from, to, edits) in
            [("", "", 0), ("", "abc", 3), ("lanes", "lanes", 0), ("kitten", "sitting", 3), ("flaw", "lawn", 2)]
        {
            assert_eq!(distance(from.as_bytes(), to.as_bytes()), edits);
            assert_eq!(distance(to.as_bytes(), from.as_bytes()), edits);
        }
    }

    #[test]
    fn suggests_only_what_is_near() {
        let names = ["lanes.count", "memory.max.bytes"];
        let suggest = |word| nearest(word, names.into_iter());
        assert_eq!(suggest("lane.count"), Some("lanes.count"));
        assert_eq!(suggest("memory.bytes"), Some("memory.max.bytes"));
        assert_eq!(suggest("security.protocol"), None);
        assert_eq!(suggest(""), None);
    }
}
