/**
 * Plans: for each layer a decision with its reason, made before anything is changed, and the rewrite that carries a plan out.
 * Comes in: a canonical graph, a recipe, later statistics; goes out: decisions, and a graph with FP8 operators.
 */
@NullMarked
package dev.octet.converter.plan;

import org.jspecify.annotations.NullMarked;
