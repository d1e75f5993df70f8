/**
 * Short replays of a run under changed precision, and what their differences say: an {@link dev.octet.trainer.replay.Excerpt} of a run in,
 * a {@link dev.octet.trainer.replay.Diagnosis} out. Writes at most the log of its replays.
 */
@NullMarked
package dev.octet.trainer.replay;

import org.jspecify.annotations.NullMarked;
