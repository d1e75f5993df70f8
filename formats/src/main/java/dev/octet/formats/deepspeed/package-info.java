/**
 * Checkpoints of DeepSpeed: ZeRO's shares of each rank, and the universal form with a folder for each parameter. In: a folder. Out: whole parameters in pieces, in
 * the FP32 that the optimizer keeps.
 */
@NullMarked
package dev.octet.formats.deepspeed;

import org.jspecify.annotations.NullMarked;
