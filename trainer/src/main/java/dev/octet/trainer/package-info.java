/** Joins the rooms below: a model, data and a configuration become a run. */
@NullMarked
package dev.octet.trainer;

import org.jspecify.annotations.NullMarked;
