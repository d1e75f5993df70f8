package dev.octet.trainer.bisect;

import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * What a search found.
 *
 * @param culprits sets of suspects that show the fault, in the order they were found: of one suspect, or of several that show it only
 *     together
 * @param cured suspects without which all others together are healthy: at least one of each culprit
 * @param suspects where the search ended early, the smallest set known to hold a culprit that was not found; empty where none is known
 * @param spread whether there are more culprits than were to be found, or so many members show the fault only together that none is to
 *     blame; {@code culprits} then holds those found before
 * @param complete whether {@code cured} is known to cure, and each culprit to be as small as it can be
 * @param <T> a suspect
 */
public record Findings<T>(List<Set<T>> culprits, Set<T> cured, Set<T> suspects, boolean spread, boolean complete) {
    public Findings {
        culprits = culprits.stream().map(Findings::ordered).toList();
        cured = ordered(cured);
        suspects = ordered(suspects);
    }

    private static <E> Set<E> ordered(Set<E> set) {
        return Collections.unmodifiableSet(new LinkedHashSet<>(set));
    }
}
