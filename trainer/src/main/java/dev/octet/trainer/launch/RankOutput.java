package dev.octet.trainer.launch;

import java.io.OutputStream;

/**
 * Where the first relay writes what ranks print.
 *
 * @param out their standard output
 * @param err their standard error, and what relays and mpirun say
 */
public record RankOutput(OutputStream out, OutputStream err) {}
