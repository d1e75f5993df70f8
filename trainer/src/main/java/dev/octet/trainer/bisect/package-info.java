/**
 * The search for what makes a run sick: suspects in, the smallest sets of them that show the fault out. Knows neither models nor precision;
 * a {@link dev.octet.trainer.bisect.Trial} answers for a set of suspects.
 */
@NullMarked
package dev.octet.trainer.bisect;

import org.jspecify.annotations.NullMarked;
