package dev.octet.trainer.launch;

import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.HexFormat;

/**
 * What a relay needs to reach the first one.
 *
 * @param host of the first relay, as the others know it
 * @param port where it listens
 * @param secret that all relays of a run share and nobody else knows: who has it can run commands on their machines
 */
public record Invitation(String host, int port, String secret) {
    private static final int SECRET_BYTES = 32;

    /** One with a secret of 256 random bits. */
    public static Invitation random(String host, int port) {
        byte[] secret = new byte[SECRET_BYTES];
        new SecureRandom().nextBytes(secret);
        return new Invitation(host, port, HexFormat.of().formatHex(secret));
    }

    byte[] key() {
        return secret.getBytes(StandardCharsets.UTF_8);
    }

    /** Without the secret. */
    @Override
    public String toString() {
        return host + ":" + port;
    }
}
