/**
 * Gradients of data-parallel ranks averaged in FP8, as MS-AMP does: what one rank does before, between and after the collectives, the sum of
 * codes as NCCL rounds it, and ranks that are simulated in this process.
 */
@NullMarked
package dev.octet.trainer.reduction;

import org.jspecify.annotations.NullMarked;
