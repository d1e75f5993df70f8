/**
 * What each of several ranks keeps of a training's gradients and states, and how programs change for it (ZeRO): a partition of parameters, passes from a program to a
 * program, bytes before a run starts. Used by a step.
 */
@NullMarked
package dev.octet.trainer.shard;

import org.jspecify.annotations.NullMarked;
