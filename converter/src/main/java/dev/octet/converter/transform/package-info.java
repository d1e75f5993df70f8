/**
 * Transforms of models before they are quantised. In: a canonical graph, which says which Linears read which norm, and statistics of their
 * inputs. Out: for each tensor the steps that change its numbers, so that the model computes the same as before; and what could not be
 * transformed, with the reason.
 */
@NullMarked
package dev.octet.converter.transform;

import org.jspecify.annotations.NullMarked;
