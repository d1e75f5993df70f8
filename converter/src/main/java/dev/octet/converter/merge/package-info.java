/**
 * Adapters brought to the weights of a base. In: PEFT adapters, the names and shapes of a base. Out: what happens to each tensor, for those who
 * write the merged model; or why the adapters do not fit the base or each other.
 */
@NullMarked
package dev.octet.converter.merge;

import org.jspecify.annotations.NullMarked;
