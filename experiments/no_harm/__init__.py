"""The default against its own start, which learns nothing: does learning lose where it does not pay?"""
