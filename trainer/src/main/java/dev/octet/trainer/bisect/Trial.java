package dev.octet.trainer.bisect;

import java.io.IOException;
import java.util.Set;

/**
 * Tries a set of suspects.
 *
 * @param <T> a suspect
 */
@FunctionalInterface
public interface Trial<T> {
    /**
     * How sick these suspects are while all others are cured: above 1 they show the fault. A set that contains a sick set is taken to be
     * sick.
     *
     * @throws BudgetSpentException when no further trial is allowed
     * @throws IOException when data of the trial cannot be read
     */
    double excess(Set<T> suspects) throws BudgetSpentException, IOException;
}
