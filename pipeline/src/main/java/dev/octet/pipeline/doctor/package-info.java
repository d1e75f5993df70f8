/**
 * What a run's curves say before anything is computed: spikes, mismatch, divergence, scores of tasks. Curves come in, a triage goes out, and
 * the cure that replays prove is put into the words of other tools. {@code pipeline.Doctor} uses it; pages are drawn from its records.
 */
@NullMarked
package dev.octet.pipeline.doctor;

import org.jspecify.annotations.NullMarked;
