package dev.octet.trainer.collective;

/** What a rank is doing when it waits for others, for messages. */
enum Call {
    ALL_REDUCE("all-reduce"),
    REDUCE_SCATTER("reduce-scatter"),
    ALL_GATHER("all-gather"),
    BROADCAST("broadcast"),
    MESSAGE("send and receive"),
    BARRIER("barrier");

    private final String text;

    Call(String text) {
        this.text = text;
    }

    String text() {
        return text;
    }
}
