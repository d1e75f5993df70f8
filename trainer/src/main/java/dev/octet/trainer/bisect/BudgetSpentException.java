package dev.octet.trainer.bisect;

/** No further trial is allowed: a search ends with what it knows. */
public final class BudgetSpentException extends Exception {
    private static final long serialVersionUID = 1;

    /** @param budget what was spent, such as {@code 12 replays} */
    public BudgetSpentException(String budget) {
        super("the budget of " + budget + " is spent");
    }
}
