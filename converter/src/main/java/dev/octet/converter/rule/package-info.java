/**
 * Pattern rules: what exporters spell with many nodes becomes one canonical operator of the {@code dev.octet} domain
 * ({@code Linear}, {@code LayerNormalization}, {@code RMSNormalization}, {@code Gelu}), and weights get their original names
 * back. What comes in: a model, best after the passes of {@code dev.octet.converter.pass}; what goes out: the same model with
 * fewer nodes, and a refusal with a reason for each near miss. The planner reads the canonical operators;
 * {@code dev.octet.converter.lower} turns those that are left back into ONNX's own.
 */
@NullMarked
package dev.octet.converter.rule;

import org.jspecify.annotations.NullMarked;
