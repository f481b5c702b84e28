"""The policy, waivers, the decision and its reasons. Values in, values out: this layer touches nothing outside."""
