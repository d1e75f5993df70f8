/**
 * The tensors of a checkpoint as rows: an RDD, and a source of tables for SQL. Comes in: the name of a checkpoint. Goes out: a row for each tensor
 * in its files; scales are read only where a query asks for them.
 */
@NullMarked
package dev.octet.spark.table;

import org.jspecify.annotations.NullMarked;
