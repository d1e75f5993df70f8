/**
 * What a training run wrote down, thinned to what a page can draw. In: the folder of a run, finished or still growing. Out: records of series, heat
 * maps and events that stay as small for a million steps as for a thousand. Read by {@link dev.octet.pipeline.Report}.
 */
@NullMarked
package dev.octet.pipeline.history;

import org.jspecify.annotations.NullMarked;
