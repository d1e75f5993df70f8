/**
 * Ranks of a run started with an installed MPI by processes that somebody else has placed. In: where such a process stands, how it finds the others, and the command of a
 * rank. Out: the exit code of the ranks, which run under {@code mpirun}. Called by {@code cli} and {@code spark}; knows nothing of training.
 */
@NullMarked
package dev.octet.trainer.launch;

import org.jspecify.annotations.NullMarked;
