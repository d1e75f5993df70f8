/**
 * What a training run is made of, where {@code converter} and {@code trainer} meet: a model file opened for the trainer, texts and tokenizer
 * for its samples, its samples for the converter, and the folder that a run leaves with the scales it knows. For {@code dev.octet.pipeline}.
 */
@NullMarked
package dev.octet.pipeline.run;

import org.jspecify.annotations.NullMarked;
